package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/quality"
)

type anyMeter = quality.Meter[backend.AnyBuffer]

// stage plans the scenes.
func (p *qualityPlan) stage(f qualityFlags) error {
	scenes, err := named(f.scenes, quality.ParseScene)
	if err != nil {
		return err
	}
	if len(scenes) == 0 {
		p.scenes = []quality.Scene{{}}
		return nil
	}
	for _, scene := range scenes {
		if scene.Bounded() && (f.context < quality.LeastContext || f.context > math.MaxInt32) {
			return fmt.Errorf("--context %d: accepts %d to %d", f.context, quality.LeastContext, math.MaxInt32)
		}
		p.scenes = append(p.scenes, scene.Within(f.context))
		for _, policy := range p.policies {
			if err := scene.Under(policy); err != nil {
				return fmt.Errorf("--%w", err)
			}
		}
	}
	return nil
}

// plain reports whether each text is just read.
func (p qualityPlan) plain() bool { return len(p.scenes) == 0 || p.scenes[0].Name == "" }

// bounded reports whether some scene has a context.
func (p qualityPlan) bounded() bool { return slices.ContainsFunc(p.scenes, quality.Scene.Bounded) }

// meters are one for each scene, and tell a progress bar what is done of all.
func (p *qualityPlan) meters(whole *anyMeter, bar *progressBar) (all []*anyMeter, err error) {
	whole.Progress = bar.step
	for _, scene := range p.scenes {
		meter, err := whole.In(scene)
		if err != nil {
			return nil, fmt.Errorf("--%w", err)
		}
		all = append(all, meter)
		bar.total += meter.Tokens() * p.readings(scene)
	}
	return all, nil
}

// measure adds the rows of a scene to a report.
func (p *qualityPlan) measure(ctx context.Context, meter *anyMeter, bar *progressBar, r *qualityReport) error {
	reference, err := meter.Reference(ctx)
	if err != nil {
		return err
	}
	r.references[reference.Scene] = reference
	for i, row := range p.rows {
		score, err := meter.Measure(ctx, row.format, row.policy)
		if err != nil {
			return err
		}
		bar.line.clear()
		if i == 0 {
			if err := r.begin(meter.Texts(), score); err != nil {
				return err
			}
		}
		if err := r.add(score); err != nil {
			return err
		}
	}
	return nil
}
