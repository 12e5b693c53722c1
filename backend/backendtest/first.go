package backendtest

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// FirstFailure runs the checks of the suite that match on a device that is open, and returns the first failure by the
// names of its room and check. It is an error that no check ran. Checks that open the device again are left out.
func FirstFailure[B backend.Buffer](be backend.Backend[B], o Options, match func(room, check string) bool) error {
	b := bench[B]{be: be, open: func() backend.Backend[B] { panic(skipped{"the device is open already"}) }, flushes: o.FlushesSubnormals}
	passed, err := b.first(o, match)
	if err == nil && passed == 0 {
		err = errors.New("no check matches, or all were skipped")
	}
	return err
}

// first runs the checks that match until one fails, and reports how many passed before.
func (b bench[B]) first(o Options, match func(room, check string) bool) (passed int, err error) {
	for _, room := range rooms[B](b.be.Caps(), o) {
		for _, c := range room.checks {
			if !match(room.name, c.name) {
				continue
			}
			var skip skipped
			switch err := b.attempt(c.run); {
			case errors.As(err, &skip):
			case err != nil:
				return passed, fmt.Errorf("%s: %s: %w", room.name, c.name, err)
			default:
				passed++
			}
		}
	}
	return passed, nil
}

// Floats is what bytes of a float type are worth.
func Floats(dt backend.DType, raw []byte) []float32 { return decode(dt, raw) }
