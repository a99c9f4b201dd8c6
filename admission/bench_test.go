package admission_test

import (
	"context"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/caddy-audio-proxy/caddy-audio-proxy/admission"
)

func BenchmarkUncontended(b *testing.B) {
	ctx := context.Background()
	b.Run("budget", func(b *testing.B) {
		budget := admission.New(admission.Limits{Slots: 4})
		b.ReportAllocs()
		for b.Loop() {
			lease, _, _ := budget.Ask(ctx, admission.Interactive)
			lease.Release()
		}
	})
	b.Run("budget observed", func(b *testing.B) {
		var n int
		budget := admission.New(admission.Limits{Slots: 4}, admission.WithObserver(func(admission.Event) { n++ }))
		b.ReportAllocs()
		for b.Loop() {
			lease, _, _ := budget.Ask(ctx, admission.Interactive)
			lease.Release()
		}
	})
	b.Run("xsync", func(b *testing.B) {
		sem := semaphore.NewWeighted(4)
		b.ReportAllocs()
		for b.Loop() {
			_ = sem.Acquire(ctx, 1)
			sem.Release(1)
		}
	})
}
