package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/quality"
)

// qualityPlan is what quality measures.
type qualityPlan struct {
	formats  []quality.Format // that were asked for
	policies []quality.Policy // that were asked for, those that evict under each budget
	budgets  []int
	scenes   []quality.Scene // the zero value where none was asked for

	rows    []measurement
	skipped []string // what is no row, and why
}

// measurement is a row to come.
type measurement struct {
	format quality.Format
	policy quality.Policy
}

// plan is what the flags say, whatever the device.
func (f qualityFlags) plan() (p qualityPlan, err error) {
	for i, budget := range f.budgets {
		if budget < 1 || budget > math.MaxInt32 {
			return p, fmt.Errorf("--budget %d: accepts 1 to %d", budget, math.MaxInt32)
		}
		if !slices.Contains(f.budgets[:i], budget) {
			p.budgets = append(p.budgets, budget)
		}
	}
	if len(p.budgets) == 0 {
		return p, errors.New("--budget: names none")
	}
	if p.formats, err = named(f.formats, quality.ParseFormat); err != nil {
		return p, err
	}
	policies, err := named(f.policies, quality.ParsePolicy)
	if err != nil {
		return p, err
	}
	p.policies = p.under(policies)
	return p, p.stage(f)
}

// evicts reports whether some row has a policy with a budget: without flags all of them.
func (p qualityPlan) evicts() bool {
	if len(p.policies) == 0 {
		return len(p.formats) == 0 && p.plain()
	}
	return slices.ContainsFunc(p.policies, func(policy quality.Policy) bool { return policy.Name != quality.Everything })
}

// named are the things that names stand for, each once.
func named[T any](names []string, parse func(string) (T, error)) (all []T, err error) {
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		v, err := parse(name)
		if err != nil {
			return nil, fmt.Errorf("--%w", err)
		}
		all = append(all, v)
	}
	return all, nil
}

// under gives each policy each budget, if it has one.
func (p *qualityPlan) under(policies []quality.Policy) (all []quality.Policy) {
	for _, policy := range policies {
		budgets := p.budgets
		if !policy.Evicts() {
			budgets = budgets[:1]
		}
		for _, budget := range budgets {
			all = append(all, policy.Under(budget))
		}
	}
	return all
}

// on lists the rows that a device can measure.
func (p *qualityPlan) on(be anyBackend) error {
	device := be.Info().Name
	var has []quality.Format
	var names, lacks []string
	for _, f := range quality.Formats() {
		if !f.On(be.Caps()) {
			lacks = append(lacks, f.Name)
			continue
		}
		has, names = append(has, f), append(names, f.Name)
	}
	for _, f := range p.formats {
		if slices.Contains(lacks, f.Name) {
			return fmt.Errorf("--format %s: %s has %s", f.Name, device, strings.Join(names, ", "))
		}
	}
	reference, everything := quality.Formats()[:1], quality.Policies()[:1]
	switch {
	case len(p.formats) == 0 && len(p.policies) == 0:
		if len(lacks) > 0 {
			p.skipped = append(p.skipped, fmt.Sprintf("formats that %s does not have: %s", device, strings.Join(lacks, ", ")))
		}
		p.pair(has, everything)
		if p.plain() {
			p.pair(reference, p.under(quality.Policies()[1:]))
		}
	case len(p.policies) == 0:
		p.pair(p.formats, everything)
	case len(p.formats) == 0:
		p.pair(reference, p.policies)
	default:
		p.pair(p.formats, p.policies)
	}
	if len(p.rows) == 0 {
		return errors.New(strings.Join(p.skipped, "; "))
	}
	return nil
}

// readings is how often the texts are read in a scene: for the reference, and for each row but its own.
func (p *qualityPlan) readings(scene quality.Scene) int {
	n := 1
	for _, row := range p.rows {
		if !scene.Refers(row.format, row.policy) {
			n++
		}
	}
	return n
}

// pair makes a row of every format under every policy.
func (p *qualityPlan) pair(formats []quality.Format, policies []quality.Policy) {
	for _, f := range formats {
		for _, policy := range policies {
			if err := f.Under(policy); err != nil {
				p.skipped = append(p.skipped, err.Error())
				continue
			}
			p.rows = append(p.rows, measurement{f, policy})
		}
	}
}
