package admission_test

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

// The simulation runs the real budget in virtual time: jobs arrive at random,
// ask, wait, render for a random time, and release. Every policy gets the very
// same jobs. It says what each feature buys.

const (
	simulatedJobs  = 60_000
	simulatedSlots = 4
	simulatedQueue = 40
	renderTimeout  = 5 * time.Minute // also the longest wait
)

// traffic is what share of the jobs is of each class, and how long their
// renders last on average.
var traffic = [admission.NumClasses]struct {
	share float64
	mean  time.Duration
}{
	admission.Interactive: {0.52, 5 * time.Second},
	admission.High:        {0.25, 5 * time.Second},
	admission.Normal:      {0.15, 8 * time.Second},
	admission.Low:         {0.08, 40 * time.Second},
}

var simulatedLoads = []float64{0.5, 0.9, 1.5}

// policy is one way to run the budget.
type policy struct {
	name    string
	classes bool // jobs name their class
	limits  [admission.NumClasses]int
}

var simulatedPolicies = []policy{
	{name: "FIFO"},
	{name: "classes", classes: true},
	{name: "classes, `class_limit low 1`", classes: true, limits: limitTo(admission.Low, 1)},
}

// result is what came out of one run.
type result struct {
	load       float64
	policy     policy
	median     time.Duration // wait of interactive jobs that were rendered
	p99        time.Duration
	throughput float64 // renders per hour
	refused    [admission.NumClasses]float64
}

// job is one render that somebody wants.
type job struct {
	class   admission.Class
	arrival time.Duration
	length  time.Duration
	ticket  *admission.Ticket
	lease   admission.Lease
}

// happening is something that is due in virtual time.
type happening struct {
	at    time.Duration
	order int // of two that are due at the same time
	do    func()
}

type agenda []happening

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	if a[i].at != a[j].at {
		return a[i].at < a[j].at
	}
	return a[i].order < a[j].order
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(happening)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// simulation is one run under way.
type simulation struct {
	policy  policy
	budget  *admission.Budget
	now     time.Duration
	agenda  agenda
	orders  int
	waiting []*job

	waits    []time.Duration
	arrived  [admission.NumClasses]int
	refused  [admission.NumClasses]int
	rendered int
}

func simulate(load float64, p policy) result {
	s := &simulation{policy: p}
	s.budget = admission.New(admission.Limits{
		Slots: simulatedSlots, Queue: simulatedQueue, MaxWait: renderTimeout, ClassLimits: p.limits,
	}, admission.WithClock(func() time.Duration { return s.now }))
	jobs := drawJobs(load)
	for _, j := range jobs {
		s.at(j.arrival, func() { s.arrive(j) })
	}
	for s.agenda.Len() > 0 {
		next := heap.Pop(&s.agenda).(happening)
		s.now = next.at
		next.do()
	}
	return s.result(load)
}

// drawJobs draws the jobs that ask for load times what the slots can do. They
// depend on nothing else, so that all policies are compared on the same ones.
func drawJobs(load float64) []*job {
	random := rand.New(rand.NewPCG(20, 26))
	var work float64 // seconds of rendering per job
	for _, c := range traffic {
		work += c.share * c.mean.Seconds()
	}
	gap := work / (load * simulatedSlots)
	var jobs []*job
	var now time.Duration
	for range simulatedJobs {
		now += seconds(random.ExpFloat64() * gap)
		class, u := admission.Interactive, random.Float64()
		for ; class < admission.NumClasses-1 && u >= traffic[class].share; class++ {
			u -= traffic[class].share
		}
		length := seconds(random.ExpFloat64() * traffic[class].mean.Seconds())
		jobs = append(jobs, &job{class: class, arrival: now, length: length})
	}
	return jobs
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (s *simulation) at(when time.Duration, do func()) {
	s.orders++
	heap.Push(&s.agenda, happening{when, s.orders, do})
}

func (s *simulation) arrive(j *job) {
	class := admission.Default
	if s.policy.classes {
		class = j.class
	}
	s.arrived[j.class]++
	lease, ticket, err := s.budget.Ask(context.Background(), class)
	switch {
	case err != nil:
		s.refused[j.class]++
	case ticket != nil:
		j.ticket = ticket
		s.waiting = append(s.waiting, j)
		s.at(s.now+renderTimeout, func() { ticket.Expire(); s.look() })
		s.look() // somebody may have been displaced
	default:
		s.render(j, lease)
	}
}

// look does with every waiter what was decided about it.
func (s *simulation) look() {
	s.waiting = slices.DeleteFunc(s.waiting, func(j *job) bool {
		if !decided(j.ticket) {
			return false
		}
		if lease, err := j.ticket.Lease(); err == nil {
			s.render(j, lease)
		} else {
			s.refused[j.class]++
		}
		return true
	})
}

func (s *simulation) render(j *job, lease admission.Lease) {
	j.lease = lease
	if j.class == admission.Interactive {
		s.waits = append(s.waits, s.now-j.arrival)
	}
	s.at(s.now+j.length, func() {
		j.lease.Release()
		s.rendered++
		s.look()
	})
}

func (s *simulation) result(load float64) result {
	slices.Sort(s.waits)
	r := result{
		load: load, policy: s.policy,
		median:     s.waits[len(s.waits)/2],
		p99:        s.waits[len(s.waits)*99/100],
		throughput: float64(s.rendered) / s.now.Hours(),
	}
	for c := range r.refused {
		r.refused[c] = float64(s.refused[c]) / float64(s.arrived[c])
	}
	return r
}

func simulateAll() (all []result) {
	for _, load := range simulatedLoads {
		for _, p := range simulatedPolicies {
			all = append(all, simulate(load, p))
		}
	}
	return all
}

// table is the results as Markdown.
func table(all []result) string {
	var b strings.Builder
	b.WriteString("| load | policy | interactive wait, median | 99th percentile | renders per hour | refused: interactive | high | normal | low |\n")
	b.WriteString("|--:|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, r := range all {
		fmt.Fprintf(&b, "| %.1f | %s | %.1f s | %.1f s | %.0f |", r.load, r.policy.name, r.median.Seconds(), r.p99.Seconds(), r.throughput)
		for _, share := range r.refused {
			fmt.Fprintf(&b, " %.1f %% |", 100*share)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestSimulation prints the table, and checks that the documentation has the
// same one and the plot that belongs to it. Run it with -update to write them.
func TestSimulation(t *testing.T) {
	all := simulateAll()
	t.Logf("%d jobs, %d slots, queue of %d\n%s", simulatedJobs, simulatedSlots, simulatedQueue, table(all))
	checkClaims(t, all)
	kept(t, all)
}
