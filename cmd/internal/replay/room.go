package replay

import (
	"fmt"
	"strconv"
	"strings"
)

// Room is the size of a tier below a cache: blocks, or a multiple of those of the cache. The zero value is no tier.
type Room struct {
	times  float64
	blocks int
}

// ParseRoom reads "20x" or "1000" (blocks). ErrSetting, with a name for what it is of, says what is accepted.
func ParseRoom(name, text string) (r Room, err error) {
	if number, ok := strings.CutSuffix(text, "x"); ok {
		r.times, err = strconv.ParseFloat(number, 64)
		if err == nil && r.times > 0 && r.times <= maxUnique {
			return r, nil
		}
	} else {
		r.blocks, err = strconv.Atoi(text)
		if err == nil && r.blocks >= 1 && r.blocks <= maxUnique {
			return r, nil
		}
	}
	return Room{}, ErrSetting{name, text, fmt.Sprintf("accepts 1 to %d blocks, and a multiple of the blocks of the cache, such as 20x", maxUnique)}
}

// String is what ParseRoom reads; empty: no tier.
func (r Room) String() string {
	switch {
	case r.blocks > 0:
		return strconv.Itoa(r.blocks)
	case r.times > 0:
		return strconv.FormatFloat(r.times, 'g', -1, 64) + "x"
	}
	return ""
}

// Any reports whether there is a tier.
func (r Room) Any() bool { return r != Room{} }

// Blocks is the size below a cache of that many blocks, at least one: a multiple is rounded down.
func (r Room) Blocks(cache int) int {
	if r.blocks > 0 {
		return r.blocks
	}
	return int(max(min(float64(cache)*r.times, maxUnique), 1))
}
