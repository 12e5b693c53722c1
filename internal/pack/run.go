package pack

import (
	"context"
	"errors"
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
	notRun      = "not run"
	hung        = "hung or crashed"
	notMeasured = "not measured: "
	endedBefore = notMeasured + "the process ended before"
	passed      = "passed"
	noTime      = "no time left"
)

// Run describes the lab, lets each variant conform, and measures those that do beside the baseline, in the order of the pack, until the
// budget is used or ctx is done. What fails is dropped with its reason, and the rest goes on. Results go to save whenever something
// was learned and before all that might not return; a failed save is reported to progress, as everything is. The error is that
// of the last save: the results are whole all the same.
//
// Run goes on where earlier results of the same pack end; the zero Results are the beginning. It returns early where the lab loses
// its device: another process may go on then, see Finish.
func Run(ctx context.Context, lab Lab, p Pack, earlier Results, save func(Results) error, progress io.Writer) (Results, error) {
	r := &run{ctx: ctx, lab: lab, pack: p, save: save, progress: progress}
	r.begin(earlier)
	for i := range p.Variants {
		if !r.lost && r.out.Variants[i].Conform == notRun {
			r.conform(i)
		}
	}
	for i := range p.Variants {
		if !r.lost && !r.out.Variants[i].Done {
			r.measure(i)
		}
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
	lost     bool      // the lab has no device any more
	saved    time.Time // of the lab's clock, too
	out      Results   // without what is made of all that was measured, see keep
}

// begin takes down what the device is, and what is known of each variant.
func (r *run) begin(earlier Results) {
	r.out = Results{Commit: r.pack.Commit, Started: earlier.Started}
	if earlier.Started.IsZero() {
		r.out.Started = r.lab.Now().UTC()
	}
	r.deadline = r.out.Started.Add(seconds(r.pack.BudgetSeconds))
	for _, v := range r.pack.Variants {
		known := VariantResult{Name: v.Name, What: v.What, Conform: notRun}
		for _, e := range earlier.Variants {
			if e.Name == v.Name {
				known = e
			}
		}
		r.out.Variants = append(r.out.Variants, known)
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
	r.saved = r.lab.Now()
	out.Ended = r.saved.UTC()
	out.Variants = slices.Clone(out.Variants)
	out.choose()
	err := r.save(out)
	if err != nil {
		r.say("results are not saved: %v", err)
	}
	return out, err
}

// failed ends a variant: as long as the process is alive it may be taken back.
func (v *VariantResult) failed(why string) { v.Failed, v.Done = why, true }

// alive saves what is known where that is some time ago: Finish takes a process that does not for one that stands still.
func (r *run) alive() {
	if r.lab.Now().Sub(r.saved) > 2*time.Second {
		r.keep()
	}
}

// conform lets a variant through its checks. Where it does not pass it is dropped.
func (r *run) conform(i int) {
	v, out := r.pack.Variants[i], &r.out.Variants[i]
	if why := r.over(); why != "" {
		out.Conform = notRun + ": " + why
		out.failed(notMeasured + why)
		return
	}
	out.Conform = hung
	out.failed("conform " + hung)
	r.keep()
	err := r.guard(func() error { return r.lab.Conform(v, func() bool { r.alive(); return r.over() == "" }) })
	out.Conform, out.Failed, out.Done = passed, "", false
	if err != nil {
		out.Conform = err.Error()
		out.failed("does not conform: " + err.Error())
	}
	r.say("%s: conform: %s", v.Name, out.Conform)
}

// measure compares a variant with the baseline in each of its shapes. Those that are not done share the time that is left.
func (r *run) measure(i int) {
	v, out := r.pack.Variants[i], &r.out.Variants[i]
	defer r.keep()
	names, err := r.shapes(v)
	if why := r.over(); why != "" {
		err = errors.New(notMeasured + why)
	}
	if err != nil {
		out.failed(err.Error())
		r.say("%s: %v", v.Name, err)
		return
	}
	left := 0
	for _, w := range r.out.Variants {
		if !w.Done {
			left++
		}
	}
	until := r.share(r.deadline, left)
	for n, name := range names {
		if slices.ContainsFunc(out.Shapes, func(s ShapeResult) bool { return s.Name == name }) {
			continue // by an earlier process
		}
		s := ShapeResult{Name: name, Prediction: v.prediction(name)}
		if why := r.over(); why != "" {
			s.Stopped = notMeasured + why
		} else {
			out.failed(name + ": " + hung)
			r.keep()
			err = r.compare(v, &s, r.share(until, len(names)-n))
		}
		out.Failed, out.Done = "", false
		out.Shapes = append(out.Shapes, s)
		r.say("%s: %s: %s", v.Name, name, s)
		if err != nil {
			out.failed(name + ": " + err.Error())
		}
		if err != nil || r.lost {
			return
		}
	}
	out.Done = true
	for _, name := range slices.Sorted(maps.Keys(v.PredictUS)) {
		if !slices.Contains(names, name) {
			out.Shapes = append(out.Shapes, ShapeResult{Name: name, Prediction: v.prediction(name), Stopped: notMeasured + "there is no such benchmark"})
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
		return nil, fmt.Errorf("no benchmark matches %s", v.Shapes)
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

// guard makes an error of a panic, whose stack goes to progress, and takes down that the device is lost.
func (r *run) guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.say("panic: %v\n%s", p, debug.Stack())
			err = fmt.Errorf("panic: %v", p)
		}
		r.lost = r.lost || errors.Is(err, ErrLost)
	}()
	return f()
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.progress, format+"\n", args...) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
