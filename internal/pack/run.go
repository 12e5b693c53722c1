package pack

import (
	"context"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"time"
)

// What results say of variants that are not at their end yet. They are what remains when the process is killed, as by a
// kernel that does not return.
const (
	notRun       = "not run"
	didNotReturn = "did not return"
	notMeasured  = "not measured: "
	endedBefore  = notMeasured + "the process ended before"
	passed       = "passed"
	noTime       = "no time left"
)

// Run describes the lab, lets each variant conform, and measures those that do beside the baseline, in the order of the pack, until the
// budget is used or ctx is done. What fails is dropped with its reason, and the rest goes on. Results go to save whenever something
// was learned and before all that might not return; a save that fails is told to progress, as everything is. The error is that
// of the last save: the results are whole all the same.
func Run(ctx context.Context, lab Lab, p Pack, save func(Results) error, progress io.Writer) (Results, error) {
	r := &run{ctx: ctx, lab: lab, pack: p, save: save, progress: progress}
	r.begin()
	var good []int
	for i := range p.Variants {
		if r.conform(i) {
			good = append(good, i)
		}
	}
	for n, i := range good {
		r.measure(i, len(good)-n)
	}
	return r.keep()
}

// run is a pack on its way.
type run struct {
	ctx      context.Context
	lab      Lab
	pack     Pack
	save     func(Results) error
	progress io.Writer
	deadline time.Time // of the lab's clock
	out      Results   // without what is made of all that was measured, see keep
}

// begin takes down what the device is, and that nothing is known yet.
func (r *run) begin() {
	now := r.lab.Now()
	r.deadline = now.Add(seconds(r.pack.BudgetSeconds))
	r.out = Results{Commit: r.pack.Commit, Started: now.UTC()}
	for _, v := range r.pack.Variants {
		r.out.Variants = append(r.out.Variants, VariantResult{Name: v.Name, What: v.What, Conform: notRun, Dropped: endedBefore})
	}
	err := r.guard(func() error {
		r.out.About = r.lab.Describe()
		return nil
	})
	if err != nil {
		r.out.About = map[string]string{"error": err.Error()}
	}
}

// keep is the results as of now, with what is chosen. They are saved.
func (r *run) keep() (Results, error) {
	out := r.out
	out.Ended = r.lab.Now().UTC()
	out.Variants = slices.Clone(out.Variants)
	out.choose(r.pack.Accept)
	err := r.save(out)
	if err != nil {
		r.say("results are not saved: %v", err)
	}
	return out, err
}

// conform reports whether a variant passes its rooms. Otherwise it is dropped.
func (r *run) conform(i int) bool {
	v, out := r.pack.Variants[i], &r.out.Variants[i]
	if why := r.over(); why != "" {
		out.Conform, out.Dropped = notRun+": "+why, notMeasured+why
		return false
	}
	out.Conform, out.Dropped = didNotReturn, "conform "+didNotReturn
	r.keep()
	err := r.guard(func() error { return r.lab.Conform(v) })
	out.Conform, out.Dropped = passed, endedBefore
	if err != nil {
		out.Conform, out.Dropped = err.Error(), "does not conform: "+err.Error()
	}
	r.say("%s: conform: %s", v.Name, out.Conform)
	return err == nil
}

// measure compares a variant with the baseline in each of its shapes. It is the first of so many that share the time that is left.
func (r *run) measure(i, left int) {
	v, out := r.pack.Variants[i], &r.out.Variants[i]
	defer r.keep()
	if why := r.over(); why != "" {
		out.Dropped = notMeasured + why
		r.say("%s: %s", v.Name, out.Dropped)
		return
	}
	names, err := r.shapes(v)
	if err != nil {
		out.Dropped = err.Error()
		r.say("%s: %s", v.Name, out.Dropped)
		return
	}
	until := r.share(r.deadline, left)
	for n, name := range names {
		s := ShapeResult{Name: name, Prediction: v.prediction(name)}
		if why := r.over(); why != "" {
			s.Stopped = notMeasured + why
		} else {
			out.Dropped = name + ": " + didNotReturn
			r.keep()
			err = r.compare(v, &s, r.share(until, len(names)-n))
		}
		out.Dropped = ""
		out.Shapes = append(out.Shapes, s)
		r.say("%s: %s: %s", v.Name, name, s)
		if err != nil {
			out.Dropped = name + ": " + err.Error()
			return
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.PredictUS)) {
		if !slices.Contains(names, name) {
			out.Shapes = append(out.Shapes, ShapeResult{Name: name, Prediction: v.prediction(name), Stopped: notMeasured + "the lab has no such shape"})
		}
	}
}

// shapes are the names of a variant's shapes, of which the lab has one at least.
func (r *run) shapes(v Variant) (names []string, err error) {
	re, err := pattern("shapes", v.Shapes)
	if err != nil {
		return nil, err
	}
	if err := r.guard(func() error { names = r.lab.Shapes(re); return nil }); err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("the lab has no shape that %s matches", v.Shapes)
	}
	return names, nil
}

// share ends the first of n equal parts of the time until an end.
func (r *run) share(end time.Time, n int) time.Time {
	now := r.lab.Now()
	return now.Add(end.Sub(now) / time.Duration(n))
}

// over says why nothing more is begun, or nothing.
func (r *run) over() string {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx).Error()
	}
	if !r.lab.Now().Before(r.deadline) {
		return noTime
	}
	return ""
}

// guard makes an error of a panic. The stack goes to progress.
func (r *run) guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.say("panic: %v\n%s", p, debug.Stack())
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.progress, format+"\n", args...) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
