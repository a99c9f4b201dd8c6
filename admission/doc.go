// Package admission rations renders. A [Budget] has a number of slots (how many
// renders run at once) and a bounded queue (how many may wait), and decides who
// gets the next slot, who is sent away, and how a slot finds its way back when
// its owner forgets it.
//
// A caller asks with a [Class] and gets one of three answers at once: a [Lease]
// (go ahead, and release it when the subprocess is gone), a [Ticket] (wait, it
// will be decided later), or a [*Refusal] (go away, and come back after so many
// seconds). [Budget.Acquire] blocks until the ticket is decided, for callers
// that have nothing else to do.
//
// The package knows nothing of HTTP, Caddy or ffmpeg, and keeps no global
// state: the clock, the observer and the logger are handed in.
package admission
