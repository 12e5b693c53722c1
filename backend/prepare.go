package backend

var _ Preparer = (*erased[AnyBuffer])(nil)

// Preparation is what a program is about to do with a device: attention over caches of some formats.
type Preparation struct {
	Formats         []Format // of the caches; none are of other head counts or dims
	QHeads, KVHeads int
	KDim, VDim      int
	Contiguous      bool // a sequence lies in one block
	Latent          bool // as in CacheView
	RoPE            bool // Append turns keys and queries (AppendParams.Rotary)
	Scores          bool // attention scores, too
	Hadamard        bool // keys of quantized formats are stored transformed (Plane.Hadamard)
	// Residual says that steps write to caches of the activation type, transformed as those of Formats are,
	// which hold the last tokens, and convert blocks of older ones into those of Formats (Mask.Part).
	Residual bool
	Masks    []MaskUse // each that some layer has; none: a plain one
}

// MaskUse is what a Mask has besides the keys that it selects.
type MaskUse struct{ ALiBi, SinkLogits, SoftCap bool }

// Preparer is implemented by devices that load their kernels when they are first used. Programs call the
// function Prepare.
type Preparer interface {
	// Prepare is called by the function Prepare.
	Prepare(p Preparation) error
}

// Prepare loads kernels for what p describes: they take memory of the device, which whoever allocates
// most of it should leave to them. It does nothing on a device that has no such kernels, and may leave
// out those that take long to load and that steps of p need not use; these are loaded when they are
// first used. ErrOutOfMemory when there is too little memory for them.
func Prepare[B Buffer](be Backend[B], p Preparation) error {
	if d, ok := be.(Preparer); ok {
		return d.Prepare(p)
	}
	return nil
}

func (e *erased[B]) Prepare(p Preparation) error { return Prepare(e.be, p) }
