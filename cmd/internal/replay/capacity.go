package replay

import (
	"fmt"
	"strconv"
	"strings"
)

// Capacity is the size of a cache: blocks, a share of a trace's different blocks,
// or unlimited, which is the zero value.
type Capacity struct {
	blocks  int
	percent float64
}

// ParseCapacity reads "1000" (blocks), "2.5%" or "unlimited". ErrSetting says
// what is accepted.
func ParseCapacity(text string) (Capacity, error) {
	var c Capacity
	if text == "unlimited" {
		return c, nil
	}
	var err error
	if number, ok := strings.CutSuffix(text, "%"); ok {
		c.percent, err = strconv.ParseFloat(number, 64)
		if err == nil && c.percent > 0 && c.percent <= 100 {
			return c, nil
		}
	} else {
		c.blocks, err = strconv.Atoi(text)
		if err == nil && c.blocks >= 1 && c.blocks <= maxUnique {
			return c, nil
		}
	}
	return Capacity{}, ErrSetting{"capacity", text, fmt.Sprintf("accepts 1 to %d blocks, more than 0%% to 100%%, and unlimited", maxUnique)}
}

// String is what ParseCapacity reads.
func (c Capacity) String() string {
	switch {
	case c.blocks > 0:
		return strconv.Itoa(c.blocks)
	case c.percent > 0:
		return strconv.FormatFloat(c.percent, 'g', -1, 64) + "%"
	}
	return "unlimited"
}

// Blocks is the capacity for a trace, at least one block: a share is rounded
// down, and unlimited is all that the trace names.
func (c Capacity) Blocks(t *Trace) int { return c.of(t.unique) }

func (c Capacity) of(all int) int {
	switch {
	case c.blocks > 0:
		return c.blocks
	case c.percent > 0:
		return max(int(float64(all)*c.percent/100), 1)
	}
	return all
}
