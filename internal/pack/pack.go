// Package pack compares variants of kernels with the baseline on a device that is there for minutes, with nobody to decide
// anything meanwhile. A Pack says what is asked, Run asks a Lab, and Results say what was measured and which variants
// are chosen. It knows no device: the Lab does.
package pack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

// Pack is what is asked.
type Pack struct {
	Commit        string    `json:"commit"`   // that everything in the pack was built from
	BudgetSeconds float64   `json:"budget_s"` // of Run, from its start to its end
	Variants      []Variant `json:"variants"` // those of which most is expected come first: time may end before the last
}

// Variant is kernels that may be better than the baseline's.
type Variant struct {
	Name    string `json:"name"`   // letters, digits, and "-", "_" and "." within
	Folder  string `json:"folder"` // of its images, relative to that of the pack
	What    string `json:"what,omitempty"`
	Shapes  string `json:"shapes"`  // regular expression of the benchmarks that it is measured in
	Conform string `json:"conform"` // regular expression of the checks of the conformance suite that it has to pass, as room/name
	// PredictUS is the least and the most microseconds that it is expected to take, by the name of the benchmark. Shapes matches
	// all of these names.
	PredictUS map[string][2]float64 `json:"predict_us,omitempty"`
}

// Read reads a pack from a file of JSON. Everything that would fail on the device for how it is written fails here: an unknown field
// is an error, and so is an invalid pattern, a name twice, and a prediction of a shape that is not measured.
func Read(path string) (p Pack, err error) {
	if err := readJSON(path, &p); err != nil {
		return Pack{}, err
	}
	if err := p.check(); err != nil {
		return Pack{}, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// readJSON reads a file that is one value, with known fields alone.
func readJSON(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%s: byte %d: %w", path, d.InputOffset(), err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%s: byte %d: there is more after the end", path, d.InputOffset())
	}
	return nil
}

// check says what is wrong with a pack.
func (p Pack) check() error {
	switch {
	case p.Commit == "":
		return errors.New("commit is empty; name the one that the pack was built from")
	case p.BudgetSeconds <= 0:
		return fmt.Errorf("budget_s is %g; give the seconds that there are", p.BudgetSeconds)
	case len(p.Variants) == 0:
		return errors.New("variants is empty; there is nothing to compare")
	}
	names := map[string]bool{}
	for i, v := range p.Variants {
		if err := v.Check(); err != nil {
			return fmt.Errorf("variants[%d] %q: %w", i, v.Name, err)
		}
		if names[v.Name] {
			return fmt.Errorf("variants[%d] %q: another variant has this name", i, v.Name)
		}
		names[v.Name] = true
	}
	return nil
}

var variantName = regexp.MustCompile(`^[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?$`)

// Check says what is wrong with a variant.
func (v Variant) Check() error {
	if !variantName.MatchString(v.Name) {
		return errors.New(`name is letters, digits, and "-", "_" and "." within`)
	}
	if !filepath.IsLocal(v.Folder) {
		return fmt.Errorf("folder %q is not inside the pack", v.Folder)
	}
	if _, err := pattern("conform", v.Conform); err != nil {
		return err
	}
	shapes, err := pattern("shapes", v.Shapes)
	if err != nil {
		return err
	}
	for name, between := range v.PredictUS {
		if !shapes.MatchString(name) {
			return fmt.Errorf("predict_us %q is not measured: shapes does not match it", name)
		}
		if least, most := between[0], between[1]; least < 0.001 || most < least {
			return fmt.Errorf("predict_us %q is [%g, %g]; give the least and the most microseconds", name, least, most)
		}
	}
	return nil
}

// pattern is the regular expression of a field. One that is empty would match everything, and was forgotten.
func pattern(field, text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, fmt.Errorf("%s is empty", field)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return re, nil
}
