package load

import (
	"fmt"
	"strings"
	"time"
)

// Objective is what a request must meet to count for goodput: the time to the first token, and that per token after it. 0: any.
type Objective struct{ TTFT, TPOT time.Duration }

// ParseObjective reads "ttft=500ms,tpot=50ms", or one of these.
func ParseObjective(text string) (Objective, error) {
	var o Objective
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		at := map[string]*time.Duration{"ttft": &o.TTFT, "tpot": &o.TPOT}[strings.TrimSpace(name)]
		d, err := time.ParseDuration(strings.TrimSpace(value))
		if at == nil || err != nil || d <= 0 || *at != 0 {
			return Objective{}, fmt.Errorf("accepts times such as ttft=500ms,tpot=50ms, or one of them")
		}
		*at = d
	}
	return o, nil
}

// String is what ParseObjective reads.
func (o Objective) String() string {
	var parts []string
	if o.TTFT > 0 {
		parts = append(parts, "ttft="+o.TTFT.String())
	}
	if o.TPOT > 0 {
		parts = append(parts, "tpot="+o.TPOT.String())
	}
	return strings.Join(parts, ",")
}

// met reports whether a request meets the objective. One that failed does not; an answer of one token has no time per token.
func (o Objective) met(s *Sample) bool {
	tpot, measured := s.TPOT()
	return s.Kind == "" && (o.TTFT == 0 || s.TTFT() <= o.TTFT.Seconds()) && (o.TPOT == 0 || !measured || tpot <= o.TPOT.Seconds())
}
