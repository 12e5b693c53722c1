package metrics

import (
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// ContentType is the HTTP header of what Write writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// ErrFamily is a family that cannot be written, which is a mistake in its table.
type ErrFamily struct{ Name, Why string }

func (e ErrFamily) Error() string { return fmt.Sprintf("metrics: %q: %s", e.Name, e.Why) }

// Write writes families in Prometheus's text format 0.0.4, by one call of w.Write. A family without samples is left out. It returns ErrFamily,
// before anything is written, where names are not valid or do not match values.
func Write(w io.Writer, families ...Family) error {
	var t text
	seen := make(map[string]bool, len(families))
	for i := range families {
		f := &families[i]
		for _, name := range f.names() {
			if seen[name] {
				return ErrFamily{f.Name, fmt.Sprintf("%s is there twice", name)}
			}
			seen[name] = true
		}
		if err := f.check(); err != nil {
			return err
		}
		t.family(f)
	}
	_, err := w.Write(t)
	return err
}

var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// names are those that a family has in a text.
func (f *Family) names() []string {
	switch f.Type {
	case CounterType:
		return []string{f.Name + "_total"}
	case HistogramType:
		return []string{f.Name, f.Name + "_bucket", f.Name + "_sum", f.Name + "_count"}
	}
	return []string{f.Name}
}

func (f *Family) check() error {
	switch {
	case !metricName.MatchString(f.Name):
		return ErrFamily{f.Name, "is not a name of a metric"}
	case f.Type == CounterType && strings.HasSuffix(f.Name, "_total"):
		return ErrFamily{f.Name, "ends with _total, which Write adds"}
	case f.Type > HistogramType:
		return ErrFamily{f.Name, "has an unknown type"}
	}
	for i, l := range f.Labels {
		if !labelName.MatchString(l) || strings.HasPrefix(l, "__") || f.Type == HistogramType && l == "le" {
			return ErrFamily{f.Name, fmt.Sprintf("%q is not a name of a label", l)}
		}
		for _, other := range f.Labels[:i] {
			if l == other {
				return ErrFamily{f.Name, fmt.Sprintf("has the label %q twice", l)}
			}
		}
	}
	for _, s := range f.Samples {
		d := s.Distribution
		switch {
		case len(s.Labels) != len(f.Labels):
			return ErrFamily{f.Name, fmt.Sprintf("a sample has %d values for %d labels", len(s.Labels), len(f.Labels))}
		case (f.Type == HistogramType) != (d != nil):
			return ErrFamily{f.Name, "histograms, and no others, have samples with distributions"}
		case d != nil && len(d.Counts) != len(d.Bounds)+1:
			return ErrFamily{f.Name, fmt.Sprintf("a distribution has %d counts for %d bounds", len(d.Counts), len(d.Bounds))}
		case d != nil && !d.rising():
			return ErrFamily{f.Name, fmt.Sprintf("the bounds %v of a distribution do not rise, or have one that is not finite", d.Bounds)}
		}
	}
	return nil
}

// text is lines of the format.
type text []byte

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeValue = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

func (t *text) family(f *Family) {
	if len(f.Samples) == 0 {
		return
	}
	name := f.names()[0]
	t.add("# HELP ", name, " ", escapeHelp.Replace(strings.ToValidUTF8(f.Help, "\uFFFD")), "\n# TYPE ", name, " ", f.Type.String(), "\n")
	for _, s := range f.Samples {
		if s.Distribution == nil {
			t.line(name, f.Labels, s.Labels, "", s.Value)
			continue
		}
		d, n := s.Distribution, uint64(0)
		for i, c := range d.Counts {
			n += c
			le := math.Inf(1)
			if i < len(d.Bounds) {
				le = d.Bounds[i]
			}
			t.line(name+"_bucket", f.Labels, s.Labels, strconv.FormatFloat(le, 'g', -1, 64), float64(n))
		}
		t.line(name+"_sum", f.Labels, s.Labels, "", d.Sum)
		t.line(name+"_count", f.Labels, s.Labels, "", float64(n))
	}
}

// line adds a sample. le is the end of its bucket, if it is that of one.
func (t *text) line(name string, labels, values []string, le string, v float64) {
	t.add(name)
	between := "{"
	for i, l := range labels {
		t.add(between, l, `="`, escapeValue.Replace(strings.ToValidUTF8(values[i], "\uFFFD")), `"`)
		between = ","
	}
	if le != "" {
		t.add(between, `le="`, le, `"`)
		between = ","
	}
	if between == "," {
		t.add("}")
	}
	t.add(" ")
	format := byte('g')
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 { // people read bytes and counts
		format = 'f'
	}
	*t = strconv.AppendFloat(*t, v, format, -1, 64)
	t.add("\n")
}

func (t *text) add(parts ...string) {
	for _, p := range parts {
		*t = append(*t, p...)
	}
}
