package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// A change is checked within changeLimit. What has no record is not begun after lastStart, nor
// if it would end too late.
const (
	lastStart   = 22 * time.Minute
	changeLimit = 25 * time.Minute
)

// runNamed runs checks one after another, and shows what they print.
func (r *runner) runNamed(ctx context.Context, table []check, names []string) error {
	checks, err := find(table, names)
	if err != nil {
		return err
	}
	for _, c := range checks {
		if res := r.run(ctx, c, "", true); res.err != nil {
			return fmt.Errorf("%s: %w", c.name, res.err)
		}
	}
	return nil
}

// change is the check of a change.
func (r *runner) change(ctx context.Context, table []check) error {
	stale, err := r.stale(of(table, onChange))
	if err != nil {
		return err
	}
	r.lane(ctx, append(longestFirst(of(table, always)), stale...), "", func(c check) bool {
		elapsed := time.Since(r.began)
		return c.when == always || elapsed < lastStart && elapsed+c.takes < changeLimit
	})
	return r.conclude("make passed runs them, and records what passes: commit that")
}

// unrecorded runs what has no record.
func (r *runner) unrecorded(ctx context.Context, table []check, limit time.Duration) error {
	stale, err := r.stale(of(table, onChange))
	if err != nil {
		return err
	}
	r.lane(ctx, stale, "", r.until(limit))
	return r.conclude("make passed again goes on with them")
}

// nightly runs everything, but for what an earlier one that was stopped has run of the same sources.
func (r *runner) nightly(ctx context.Context, table []check, only *regexp.Regexp, limit time.Duration, fresh bool) error {
	state := recordFile(filepath.Join(r.logs, "nightly"))
	var todo []check
	for _, c := range longestFirst(table) {
		if !only.MatchString(c.name) {
			continue
		}
		rec, ok, err := state.find(c.name)
		if err != nil {
			return err
		}
		hash, err := r.known.hash(c)
		if err != nil {
			return err
		}
		if ok && !fresh && rec.holds(hash, r.known.toolVersion) == "" {
			r.results = append(r.results, result{check: c, wall: rec.took, note: "passed before, " + rec.when.Format(time.DateTime)})
			continue
		}
		todo = append(todo, c)
	}
	r.lane(ctx, todo, state, r.until(limit))
	return r.conclude("make nightly goes on with them")
}

func (r *runner) until(limit time.Duration) func(check) bool {
	return func(check) bool { return limit == 0 || time.Since(r.began) < limit }
}

// stale is the checks without a record of their inputs as they are, longest first.
func (r *runner) stale(checks []check) ([]check, error) {
	var stale []check
	for _, c := range checks {
		rec, why, err := r.recorded(c)
		switch {
		case err != nil:
			return nil, err
		case why == "":
			r.results = append(r.results, result{check: c, note: "passed " + rec.when.Format(time.DateTime) + " in " + short(rec.took)})
		default:
			r.printf("%s no record of %s: %s\n", r.clock(), c.name, why)
			c.takes = cmp.Or(rec.took, c.takes) // of other inputs, and yet the best guess
			stale = append(stale, c)
		}
	}
	return longestFirst(stale), nil
}

// recorded says why a check has no record, or nothing.
func (r *runner) recorded(c check) (record, string, error) {
	rec, ok, err := r.records.find(c.name)
	if err != nil || !ok {
		return rec, "none", err
	}
	hash, err := r.known.hash(c)
	if err != nil {
		return rec, "", err
	}
	return rec, rec.holds(hash, r.known.toolVersion), nil
}

// lane runs checks in their order, as many at a time as there are lanes, while they may start;
// those that may not are left.
func (r *runner) lane(ctx context.Context, todo []check, night recordFile, may func(check) bool) {
	var mu sync.Mutex          // of todo and taken
	taken := map[string]bool{} // by checks that run
	next := func() (c check, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		i := slices.IndexFunc(todo, func(c check) bool { return !taken[c.alone] })
		if i < 0 { // those that are left follow one that runs, in its lane
			return c, false
		}
		c = todo[i]
		todo = slices.Delete(todo, i, i+1)
		taken[c.alone] = c.alone != ""
		return c, true
	}
	var lanes sync.WaitGroup
	for range r.lanes {
		lanes.Go(func() {
			for {
				c, ok := next()
				if !ok {
					return
				}
				if ctx.Err() != nil || !may(c) {
					r.mu.Lock()
					r.results = append(r.results, result{check: c, note: "left"})
					r.mu.Unlock()
				} else {
					r.printf("%s start %s\n", r.clock(), c.name)
					r.finished(r.run(ctx, c, night, false))
				}
				mu.Lock()
				taken[c.alone] = false
				mu.Unlock()
			}
		})
	}
	lanes.Wait()
}

// conclude prints what each check took, and is the error of those that failed or were left.
func (r *runner) conclude(advice string) error {
	r.report()
	var failed, left []string
	for _, res := range r.results {
		switch {
		case res.err != nil:
			failed = append(failed, res.name)
		case res.note == "left":
			left = append(left, res.name)
		}
	}
	var errs []error
	if len(failed) > 0 {
		errs = append(errs, fmt.Errorf("failed: %s", strings.Join(failed, " ")))
	}
	if len(left) > 0 {
		errs = append(errs, fmt.Errorf("left for want of time: %s (%s)", strings.Join(left, " "), advice))
	}
	return errors.Join(errs...)
}

func longestFirst(checks []check) []check {
	sorted := slices.Clone(checks)
	slices.SortStableFunc(sorted, func(a, b check) int { return cmp.Compare(b.takes, a.takes) })
	return sorted
}
