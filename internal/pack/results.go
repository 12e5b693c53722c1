package pack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Results are what came of a Pack. Of every variant they say that it is chosen, or why it is not.
type Results struct {
	Commit   string            `json:"commit"`
	About    map[string]string `json:"about"` // as Lab.Describe has it
	Started  time.Time         `json:"started"`
	Ended    time.Time         `json:"ended"` // of the last save, where the process was killed
	Variants []VariantResult   `json:"variants"`
	Chosen   []string          `json:"chosen"` // names, no two of which were measured in one shape
}

// VariantResult is what came of a variant.
type VariantResult struct {
	Name    string        `json:"name"`
	What    string        `json:"what,omitempty"`
	Conform string        `json:"conform"` // "passed", or why not
	Shapes  []ShapeResult `json:"shapes,omitempty"`
	Failed  string        `json:"failed,omitempty"`  // what went wrong, so that it was not measured further
	Dropped string        `json:"dropped,omitempty"` // why it is not chosen
	Done    bool          `json:"done"`              // nothing is left to do of it
}

// ShapeResult is a variant beside the baseline in one shape. Without runs it has no figures.
type ShapeResult struct {
	Name          string      `json:"name"`
	Runs          int         `json:"runs"` // rounds of two samples of each side
	BaselineUS    Spread      `json:"baseline_us,omitzero"`
	VariantUS     Spread      `json:"variant_us,omitzero"`
	Ratio         Spread      `json:"ratio,omitzero"` // the variant's time over the baseline's, of each round
	Prediction    *Prediction `json:"prediction,omitempty"`
	Check         *Check      `json:"check,omitempty"`
	BaselineCheck *Check      `json:"baseline_check,omitempty"`
	Stopped       string      `json:"stopped"` // why there were no more rounds
}

// Spread is the median and the quartiles of measurements.
type Spread struct {
	Median float64 `json:"median"`
	Q1     float64 `json:"q1"`
	Q3     float64 `json:"q3"`
}

// Left reports whether something is left to do of a variant, for another Run to go on with.
func (r Results) Left() bool {
	return slices.ContainsFunc(r.Variants, func(v VariantResult) bool { return !v.Done })
}

func (s Spread) times(f float64) Spread { return Spread{s.Median * f, s.Q1 * f, s.Q3 * f} }

// Prediction is the time that was expected of a variant in a shape, and how far off that was. Without runs of the shape only what
// was expected is known.
type Prediction struct {
	Least float64 `json:"least"` // microseconds
	Most  float64 `json:"most"`
	Hit   bool    `json:"hit"` // the median is between the two
	Off   float64 `json:"off"` // part of Most by which it is above, or of Least by which it is below, which is negative
}

// prediction is that of a shape, or nil.
func (v Variant) prediction(shape string) *Prediction {
	between, ok := v.PredictUS[shape]
	if !ok {
		return nil
	}
	return &Prediction{Least: between[0], Most: between[1]}
}

// hold holds the prediction, if there is one, against what was measured.
func (p *Prediction) hold(us float64) {
	switch {
	case p == nil:
	case us > p.Most:
		p.Off = us/p.Most - 1
	case us < p.Least:
		p.Off = us/p.Least - 1
	default:
		p.Hit = true
	}
}

// String is one line for the log.
func (s ShapeResult) String() string {
	if s.Runs == 0 {
		return s.Stopped
	}
	return fmt.Sprintf("%s µs, %.3f of the baseline's time (%.3f to %.3f) in %d rounds: %s", micros(s.VariantUS.Median), s.Ratio.Median, s.Ratio.Q1, s.Ratio.Q3, s.Runs, s.Stopped)
}

// ReadResults reads what Write wrote.
func ReadResults(path string) (r Results, err error) {
	if err := readJSON(path, &r); err != nil {
		return Results{}, err
	}
	return r, nil
}

// Write writes a file of JSON as a whole or not at all: after an error what was there is unchanged.
func (r Results) Write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return replace(path, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// WriteChosen writes the folders of the chosen variants, a line each, whole or not at all.
func (r Results) WriteChosen(path string, p Pack) error {
	return replace(path, func(w io.Writer) error {
		for _, v := range p.Variants {
			if !slices.Contains(r.Chosen, v.Name) {
				continue
			}
			if _, err := fmt.Fprintln(w, v.Folder); err != nil {
				return err
			}
		}
		return nil
	})
}

// replace writes a file under another name in its folder, and renames it when it is whole.
func replace(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".results-*")
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = errors.Join(f.Chmod(0o644), f.Sync())
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
