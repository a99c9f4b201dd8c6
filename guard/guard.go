// Package guard keeps a panic in one job from ending the process.
//
// A panic in a goroutine that nobody recovers ends Caddy with all its sites. So every goroutine, timer and callback
// that this module starts is started through this package (a test looks for others): the panic becomes the error of
// that one job, and is reported once, with its stack.
package guard

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// Panic is a panic that was recovered, as the error of the job it happened in.
type Panic struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Unwrap returns the value of the panic where that is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

var report atomic.Pointer[func(*Panic)]

// OnPanic has every panic that is recovered from now on told to f, from the goroutine that panicked. There is one
// such function in a process; f may be called concurrently and must not panic. Without one nothing is reported.
func OnPanic(f func(*Panic)) { report.Store(&f) }

// Do calls do, and returns a *Panic where that panics.
func Do(do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			p := &Panic{value, debug.Stack()}
			if f := report.Load(); f != nil {
				(*f)(p)
			}
			err = p
		}
	}()
	return do()
}

// Go calls do in a goroutine of its own. A panic ends the goroutine and is reported; who waits for the goroutine must
// be told of its end by a deferred call.
func Go(do func()) { go Func(do)() }

// Func returns do for a timer or another caller that recovers nothing: a panic is reported, and goes no further.
func Func(do func()) func() {
	return func() {
		_ = Do(func() error { // reported, and there is nobody else to tell
			do()
			return nil
		})
	}
}
