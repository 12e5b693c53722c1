package backend

import "fmt"

// unwrapper turns erased operands into those of one device and remembers whether
// one did not fit. It takes parameters by pointers, which it does not retain, and fills zero
// ones: what is large is written once, where it stays.
type unwrapper[B Buffer] struct{ empty, foreign bool }

func (u *unwrapper[B]) ok(op string) error {
	switch {
	case u.empty:
		return ErrArgument{Op: op, What: "an operand holds no buffer"}
	case u.foreign:
		return fmt.Errorf("backend: %s: operand %w", op, ErrOtherDevice)
	}
	return nil
}

func (u *unwrapper[B]) buf(a AnyBuffer) B {
	b, ok := a.buf.(B)
	u.empty = u.empty || a.buf == nil
	u.foreign = u.foreign || !ok
	return b
}
