package bench

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A measurement ends after that many rounds, or that much time but not before the least. Rounds that others disturbed are left out where
// the least clean ones are there.
const (
	mostRounds, leastRounds = 25, 9
	leastClean              = 5
	budget                  = 12 * time.Minute
)

// add makes a trial part of the rounds, unless the command line chose others. It returns the
// one that was there before under that name.
func (r *processor) add(t *trial) *trial {
	if i := slices.IndexFunc(r.trials, func(old *trial) bool { return old.String() == t.String() }); i >= 0 {
		return r.trials[i]
	}
	if r.chosen(t.String()) {
		r.trials = append(r.trials, t)
	}
	return t
}

// chosen is what the flag -bench says of the names of sub-benchmarks: a regular expression for
// each part of a name, as everywhere.
func chosen(pattern string) func(name string) bool {
	var parts []*regexp.Regexp
	for _, part := range strings.Split(pattern, "/")[1:] {
		parts = append(parts, regexp.MustCompile(part))
	}
	return func(name string) bool {
		names := strings.Split(name, "/")
		for i, part := range parts {
			if i < len(names) && !part.MatchString(names[i]) {
				return false
			}
		}
		return true
	}
}

// rounds measures every trial again and again.
func (r *processor) rounds() error {
	for _, t := range r.trials {
		if err := r.prepare(t); err != nil {
			return fmt.Errorf("%v: %w", t, err)
		}
	}
	order, rng := slices.Clone(r.trials), rand.New(rand.NewPCG(3, 4))
	most, least := r.size(mostRounds, 2), r.size(leastRounds, 2)
	for start, n := time.Now(), 0; n < least || n < most && time.Since(start) < budget; n++ {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, t := range order {
			s, err := t.sample()
			if err != nil {
				return fmt.Errorf("%v: %w", t, err)
			}
			t.samples = append(t.samples, s)
		}
	}
	return nil
}

// clean is the rounds that count: those during which others used little, or all where these
// are too few, and how many of them do not. There are samples of each trial that is compared.
func clean(samples ...[]sample) (rounds []int, foreign int) {
	all := len(samples[0])
	for _, s := range samples {
		all = min(all, len(s))
	}
	for i := range all {
		if !slices.ContainsFunc(samples, func(s []sample) bool { return s[i].foreign > dirty }) {
			rounds = append(rounds, i)
		}
	}
	if len(rounds) >= min(leastClean, all) {
		return rounds, 0
	}
	foreign = all - len(rounds)
	rounds = rounds[:0]
	for i := range all {
		rounds = append(rounds, i)
	}
	return rounds, foreign
}

// over is the median of a value over rounds.
func over(rounds []int, value func(round int) float64) float64 {
	values := make([]float64, len(rounds))
	for i, round := range rounds {
		values[i] = value(round)
	}
	return median(values)
}
