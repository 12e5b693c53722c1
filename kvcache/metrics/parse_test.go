package metrics_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// parsed is what a text in Prometheus's format says: types by the names of metrics, values by sample: name{label="value",…}, with the values as they were
// before they were escaped, quoted by %q.
type parsed struct {
	types, helps map[string]string
	values       map[string]float64
	order        []string // of the samples
}

// parse reads the format by the rules of Prometheus's documentation, and shares nothing with Write.
func parse(text string) (p parsed, err error) {
	p = parsed{types: map[string]string{}, helps: map[string]string{}, values: map[string]float64{}}
	if !strings.HasSuffix(text, "\n") {
		return p, fmt.Errorf("no newline at the end")
	}
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, help, _ := strings.Cut(rest, " ")
			p.helps[name] = unescape(help)
		} else if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			if _, again := p.types[name]; again {
				return p, fmt.Errorf("%s has two types", name)
			}
			p.types[name] = kind
		} else if err := p.sample(line); err != nil {
			return p, fmt.Errorf("%q: %w", line, err)
		}
	}
	return p, nil
}

func (p *parsed) sample(line string) error {
	at := strings.IndexAny(line, "{ ")
	if at <= 0 {
		return fmt.Errorf("no name")
	}
	key, rest := line[:at], line[at:]
	if rest[0] == '{' {
		var labels []string
		for rest = rest[1:]; !strings.HasPrefix(rest, "}"); rest = strings.TrimPrefix(rest, ",") {
			name, quoted, ok := strings.Cut(rest, `="`)
			if !ok {
				return fmt.Errorf("no label")
			}
			end := 0
			for ; end < len(quoted) && quoted[end] != '"'; end++ {
				if quoted[end] == '\\' {
					end++
				}
			}
			if end >= len(quoted) {
				return fmt.Errorf("no end of the value")
			}
			labels = append(labels, fmt.Sprintf("%s=%q", name, unescape(quoted[:end])))
			rest = quoted[end+1:]
		}
		key, rest = key+"{"+strings.Join(labels, ",")+"}", rest[1:]
	}
	v, err := strconv.ParseFloat(strings.TrimPrefix(rest, " "), 64)
	if err != nil {
		return err
	}
	if _, again := p.values[key]; again {
		return fmt.Errorf("is there twice")
	}
	p.values[key], p.order = v, append(p.order, key)
	return nil
}

func unescape(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			if s[i] == 'n' {
				out.WriteByte('\n')
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// same reports whether two values are equal, NaN too.
func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
