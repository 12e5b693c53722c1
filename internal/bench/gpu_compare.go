package bench

import "github.com/ferrumkv/ferrumkv/backend"

// Compared is a device whose kernels are compared with those of another: no limit is measured.
func Compared[B backend.Buffer](d Device[B]) *GPU[B] { return &GPU[B]{Device: d} }

// Named is the trial of that name, as it has it to itself; nil: there is none.
func (g *GPU[B]) Named(name string) *GPUTrial[B] {
	for _, t := range g.list() {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Names are those of all trials, in their order.
func (g *GPU[B]) Names() (names []string) {
	for _, t := range g.list() {
		names = append(names, t.Name)
	}
	return names
}

// Once enqueues the first call of a trial that is prepared, whose operands are the same on every device.
func (t *GPUTrial[B]) Once() error { return t.op.call(0) }

// Output is the rows that attention writes; false where a trial does not attend.
func (t *GPUTrial[B]) Output() (B, bool) {
	var none B
	return t.out, any(t.out) != any(none)
}

// Last is the seconds of a call that the last sample took.
func (t *GPUTrial[B]) Last() float64 {
	if len(t.times) == 0 {
		return 0
	}
	return t.times[len(t.times)-1]
}
