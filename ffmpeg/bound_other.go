//go:build !linux

package ffmpeg

import "time"

// memoryBounded: other systems have no way to limit a process from outside once it runs. What a hostile source can
// make ffmpeg use is then bounded by the machine alone; the codec whitelist and the bound on reports hold everywhere.
const memoryBounded = false

func bound(int, int64) {}

func processorTime(int) time.Duration { return 0 }
