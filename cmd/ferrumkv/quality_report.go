package main

import (
	"fmt"
	"io"
	"math"

	"github.com/ferrumkv/ferrumkv/cmd/internal/quality"
)

// qualityReport prints rows as they are measured.
type qualityReport struct {
	out        io.Writer
	json       bool
	model      string
	references map[string]quality.Score // of the scenes
	rows       []quality.Score
}

// head prints what holds for all tables.
func (r *qualityReport) head(texts, device string) error {
	if r.json {
		return nil
	}
	_, err := fmt.Fprintf(r.out, "model   %s\ntexts   %s\ndevice  %s\n", r.model, texts, device)
	return err
}

// begin prints what is above the rows of a table, of which s is the first.
func (r *qualityReport) begin(texts int, s quality.Score) error {
	if r.json {
		return nil
	}
	if s.Scene != "" {
		what := s.Scene
		if s.Context > 0 {
			what += fmt.Sprintf(", context of %s", count(s.Context, "token"))
		}
		if s.Reused > 0 {
			what += fmt.Sprintf(", %s tokens reused", grouped(s.Reused))
		}
		if s.Shifts > 0 {
			what += ", " + count(s.Shifts, "shift")
		}
		if _, err := fmt.Fprintf(r.out, "\nscene   %s; %s, %s tokens predicted\n", what, count(texts, "text"), grouped(s.Tokens)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(r.out, "\n%-14s %-10s %6s  %8s  %8s  %8s  %7s  %9s  %6s\n",
		"format", "policy", "budget", "nll", "loss", "kl", "top1", "bytes", "of f32")
	return err
}

// add prints a row.
func (r *qualityReport) add(s quality.Score) error {
	r.rows = append(r.rows, s)
	if r.json {
		return writeJSON(r.out, s)
	}
	budget := any("-")
	if s.Budget > 0 {
		budget = s.Budget
	}
	_, err := fmt.Fprintf(r.out, "%-14s %-10s %6v  %8.5f  %+8.5f  %8.5f  %6.2f%%  %9s  %6s\n",
		s.Format, s.Policy, budget, s.NLL, r.loss(s), s.KL, 100*s.Top1, byteSize(s.Bytes), r.share(s))
	return err
}

// loss is how much more the text surprises than with everything in f32, in nats a token, to
// the digits that are shown: nothing is +0.
func (r *qualityReport) loss(s quality.Score) float64 {
	return math.Round(1e5*(s.NLL-r.references[s.Scene].NLL))/1e5 + 0
}

// share is the memory of a row as a part of what f32 takes.
func (r *qualityReport) share(s quality.Score) string {
	return fmt.Sprintf("%.1f%%", 100*float64(s.Bytes)/float64(r.references[s.Scene].Bytes))
}

// label names a row in the plot: what is usual goes without saying.
func label(s quality.Score) string {
	switch {
	case s.Scene != "":
		return s.Format + ", " + s.Scene
	case s.Budget == 0:
		return s.Format
	case s.Format == quality.Reference:
		return fmt.Sprintf("%s %d", s.Policy, s.Budget)
	}
	return fmt.Sprintf("%s, %s %d", s.Format, s.Policy, s.Budget)
}
