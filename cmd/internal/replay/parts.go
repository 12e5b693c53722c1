package replay

import (
	"fmt"
	"strconv"

	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// Parts says what layers a model has beside those of full attention, and what stays findable of theirs: see package
// group. A block of any part is a block of the capacity. The zero value is a model without such layers.
type Parts struct {
	Window  int // tokens that a query of a windowed layer sees, its own included
	Windows int // parts of windowed layers
	States  int // parts of layers with a state, which takes a block of each part
	// Every and Share are the retention, as in group.Config; Every counts blocks of the trace.
	Every, Share int
}

// Limits of Parts.
const (
	maxWindow    = 1 << 30
	maxParts     = 64 // of a kind
	maxRetention = 1 << 30
)

// Any reports whether there are parts beside that of full attention.
func (p Parts) Any() bool { return p.Windows+p.States > 0 }

// count is the number of parts, that of full attention included.
func (p Parts) count() int { return 1 + p.Windows + p.States }

// Check reports what is out of range, as an ErrSetting.
func (p Parts) Check() error {
	for _, f := range []struct {
		name           string
		have, min, max int
	}{
		{"window", p.Window, min(p.Windows, 1), maxWindow},
		{"window-parts", p.Windows, min(p.Window, 1), maxParts},
		{"state-parts", p.States, 0, maxParts},
		{"retain", p.Every, 0, maxRetention},
		{"retain-share", p.Share, 0, 100},
	} {
		if f.have < f.min || f.have > f.max {
			return ErrSetting{f.name, strconv.Itoa(f.have), fmt.Sprintf("accepts %d to %d", f.min, f.max)}
		}
	}
	return nil
}

// rules are the parts for blocks of that many tokens, in units of whole blocks, since hits end with those.
func (p Parts) rules(tokens int) []group.Part {
	of := func(r group.Rule) group.Part {
		r.Block = 1
		return group.Part{Rule: r, Each: 1}
	}
	out := []group.Part{of(group.Rule{})}
	before := (p.Window - 1 + tokens - 1) / tokens // the blocks that a query at the beginning of another sees
	for range p.Windows {
		out = append(out, of(group.Rule{Kind: group.Window, Window: before + 1}))
	}
	for range p.States {
		out = append(out, of(group.Rule{Kind: group.State}))
	}
	return out
}

// Blocks is a capacity for a trace, as Capacity.Blocks, where all that the trace names is a block of each part for
// each of its different blocks. Unlimited has room, besides, for what is computed in a step.
func (p Parts) Blocks(c Capacity, t *Trace) int {
	if c == (Capacity{}) {
		return p.room(t)
	}
	return c.of(p.All(t))
}

// All is all blocks that the trace names, in all parts.
func (p Parts) All(t *Trace) int { return p.count() * t.unique }

// room is the most blocks that make a difference.
func (p Parts) room(t *Trace) int {
	if !p.Any() {
		return t.unique
	}
	return p.count() * (t.unique + piece)
}

// ParseRetention reads "all", "ends" or a number of blocks, as Parts.Every. ErrSetting says what is accepted.
func ParseRetention(text string) (every int, err error) {
	switch text {
	case "all":
		return 1, nil
	case "ends":
		return 0, nil
	}
	if every, err = strconv.Atoi(text); err == nil && every >= 1 && every <= maxRetention {
		return every, nil
	}
	return 0, ErrSetting{"retain", text, fmt.Sprintf("accepts all, ends, and 1 to %d blocks", maxRetention)}
}

// RetentionName is what ParseRetention reads.
func RetentionName(every int) string {
	switch every {
	case 0:
		return "ends"
	case 1:
		return "all"
	}
	return strconv.Itoa(every)
}
