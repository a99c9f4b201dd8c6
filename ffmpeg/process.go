package ffmpeg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/guard"
)

// killGrace is how long a subprocess may take to end after it was asked to (SIGTERM) before it is killed.
// ffmpeg stalled on its input has been seen alive 8 s after SIGTERM; one that is encoding ends within
// milliseconds.
const killGrace = 2 * time.Second

// unkillable is how long after SIGKILL a subprocess is waited for. The kernel needs milliseconds, unless the process
// is in an uninterruptible sleep.
const unkillable = 3 * time.Second

// openingTime is how much of the processor ffmpeg may use before it has opened its source, and ffprobe in all. Honest
// sources take less than a second; some that hold hundreds of thousands of tags take hours.
const openingTime = 3 * time.Second

// ErrNotRunnable: a program could not even be started.
var ErrNotRunnable = errors.New("the program cannot be run")

// Process is one run of ffmpeg or ffprobe: what to start, and where its streams go.
type Process struct {
	Path string
	Args []string
	Dir  string // working directory; relative names in Args are below it

	// Files are descriptors 3 and up of the subprocess.
	Files []*os.File

	// Stdout and Stderr are copied to as the subprocess writes. Neither may block for long: a subprocess whose
	// pipe is full stands still. nil discards.
	Stdout, Stderr io.Writer

	// Nice is added to the scheduling priority of the subprocess (0 = as the server).
	Nice int

	// MaxFile is how large a file it may write, in bytes; 0 is no bound. See bound.
	MaxFile int64

	// Opened is closed once the process has opened the source. Until then, or to its end where there is no such
	// moment, it may use openingTime of the processor; one that exceeds it is killed, and Run returns errFlood.
	Opened <-chan struct{}

	kill func(leader *os.Process) // killGroup; tests have another
}

// Run starts the process and returns once it and everything it started are gone. When ctx ends first, the
// whole process group is asked to end, and killed if it has not within two seconds; Run then returns the
// cause of ctx, whatever the exit status: what was asked to stop has not done all it would have. The error is
// *exec.ExitError where the process itself failed, an *Error of class Exhausted where the machine has no room for
// another process, and ErrNotRunnable where the program cannot be started for another reason.
//
// A process that cannot be killed (it sleeps in the kernel, on a mount that never answers) is left behind after some
// seconds, to be reaped should it ever end. Nothing is written to Stdout and Stderr any more once Run has returned.
func (p *Process) Run(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	running := &run{process: p, left: make(chan struct{})}
	result := make(chan error, 1)
	guard.Go(func() {
		// Linux ties the "die with your parent" signal to the thread that started the child (golang/go#27505),
		// so the thread must outlive it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		result <- guard.Do(func() error { return running.run(ctx) })
	})
	select {
	case err := <-result:
		return err
	case <-running.left:
		running.streams.detach()
		return fmt.Errorf("%w, and the process cannot be killed", running.asked)
	}
}

// run is a process while it runs.
type run struct {
	process *Process
	streams pipes
	asked   error         // why the process was asked to end, before it had ended; to be read once it is reaped
	left    chan struct{} // closed when the process was killed and goes on
}

func (r *run) run(ctx context.Context) error {
	p := r.process
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Dir = p.Dir
	cmd.Env = environment()
	cmd.SysProcAttr = ownGroup()
	cmd.ExtraFiles = p.Files
	defer r.streams.close()
	var err error
	if cmd.Stdout, err = r.streams.add(p.Stdout); err != nil {
		return startError(err)
	}
	if cmd.Stderr, err = r.streams.add(p.Stderr); err != nil {
		return startError(err)
	}
	if err := cmd.Start(); err != nil {
		return startError(err)
	}
	r.streams.started()
	bound(cmd.Process.Pid, p.MaxFile)
	if p.Nice != 0 {
		lowerPriority(cmd.Process.Pid, p.Nice)
	}

	exited := make(chan struct{})
	stopped := make(chan struct{})
	guard.Go(func() {
		defer close(stopped)
		r.stopGroup(ctx, cmd.Process, exited)
	})
	err = reap(cmd, func() {
		close(exited)
		<-stopped
	})
	r.streams.wait()
	if r.asked != nil {
		return r.asked
	}
	if bug := r.streams.bug(); bug != nil {
		return bug // what was written has not been understood
	}
	return err
}

// startError names why a process was not started: what the machine has run out of is no fault of the program's.
func startError(err error) error {
	for _, lack := range []syscall.Errno{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, lack) {
			return &Error{Class: Exhausted, Err: fmt.Errorf("starting a process: %w", err)}
		}
	}
	return fmt.Errorf("%w: %w", ErrNotRunnable, err)
}

// stopGroup ends the process group when ctx does, gently first.
func (r *run) stopGroup(ctx context.Context, leader *os.Process, exited <-chan struct{}) {
	if !r.awaitStop(ctx, leader.Pid, exited) {
		return
	}
	timer := time.NewTimer(killGrace)
	defer timer.Stop()
	if !errors.Is(r.asked, errFlood) { // which is told by a process that does not listen
		terminateGroup(leader)
		select {
		case <-exited:
			return
		case <-timer.C:
		}
	}
	kill := killGroup
	if r.process.kill != nil {
		kill = r.process.kill
	}
	kill(leader)
	timer.Reset(unkillable)
	select {
	case <-exited:
	case <-timer.C:
		close(r.left)
	}
}

// awaitStop blocks until the process has ended, or there is a reason to end it.
func (r *run) awaitStop(ctx context.Context, pid int, exited <-chan struct{}) (stop bool) {
	opened := r.process.Opened
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case <-exited:
			return false
		case <-ctx.Done():
			r.asked = context.Cause(ctx)
			return true
		case <-opened:
			look.Stop()
			opened = nil
		case <-look.C:
			if processorTime(pid) > openingTime {
				r.asked = errFlood
				return true
			}
		}
	}
}

// environment is what a subprocess sees of ours: enough to find programs and libraries, and none of the
// secrets that a server's environment tends to hold.
func environment() []string {
	env := []string{"LC_ALL=C", "AV_LOG_FORCE_NOCOLOR=1"}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR", "SystemRoot"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// pipes copies a subprocess's output streams to writers. os/exec would do that too, but its Wait then waits
// for whoever else holds the other end of the pipe, such as a grandchild that was left behind.
type pipes struct {
	childEnds []*os.File
	ourEnds   []*os.File
	done      chan struct{}
	copies    int

	mu       sync.Mutex
	panicked error // of a writer
	writers  []*attached
}

// attached is a writer until it is detached.
type attached struct {
	w  io.Writer
	mu sync.Mutex // held while w is written to
}

func (a *attached) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.w == nil {
		return len(p), nil
	}
	return a.w.Write(p)
}

// detach has all that comes from now on dropped.
func (s *pipes) detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.writers {
		a.mu.Lock()
		a.w = nil
		a.mu.Unlock()
	}
}

func (s *pipes) add(w io.Writer) (io.Writer, error) {
	if w == nil {
		return nil, nil
	}
	r, child, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if s.done == nil {
		s.done = make(chan struct{}, 2)
	}
	s.childEnds = append(s.childEnds, child)
	s.ourEnds = append(s.ourEnds, r)
	s.copies++
	to := &attached{w: w}
	s.mu.Lock()
	s.writers = append(s.writers, to)
	s.mu.Unlock()
	guard.Go(func() {
		defer func() { s.done <- struct{}{} }()
		err := guard.Do(func() error {
			_, err := io.Copy(to, r)
			return err
		})
		if bug, ok := errors.AsType[*guard.Panic](err); ok {
			s.mu.Lock()
			s.panicked = bug
			s.mu.Unlock()
		}
		if err != nil && !errors.Is(err, os.ErrClosed) {
			// The reader has had enough. Drain, so that the subprocess is not stopped by it.
			_, _ = io.Copy(io.Discard, r)
		}
	})
	return child, nil
}

// bug is the panic of a writer, if there was one.
func (s *pipes) bug() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.panicked
}

// started gives up our copies of the child's ends: now only the child holds them.
func (s *pipes) started() {
	for _, f := range s.childEnds {
		f.Close()
	}
	s.childEnds = nil
}

// wait returns when all that was written has been copied. Everybody who could write is dead by then, unless
// they left the process group; those are not waited for longer than a moment.
func (s *pipes) wait() {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	for ; s.copies > 0; s.copies-- {
		select {
		case <-s.done:
		case <-timer.C:
			return
		}
	}
}

// close ends what copying is still going on, and returns when it has ended.
func (s *pipes) close() {
	s.started()
	for _, f := range s.ourEnds {
		f.Close()
	}
	for ; s.copies > 0; s.copies-- {
		<-s.done
	}
}
