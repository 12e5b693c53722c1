package plan

// Fingerprint recognises what a plan was made for: FNV-1a over numbers.
type Fingerprint uint64

// NewFingerprint is that of some numbers.
func NewFingerprint(numbers ...int) Fingerprint {
	return Fingerprint(14695981039346656037).Add(numbers...)
}

// Add is the fingerprint of more numbers after those of f.
func (f Fingerprint) Add(numbers ...int) Fingerprint {
	for _, n := range numbers {
		f = (f ^ Fingerprint(n)) * 1099511628211
	}
	return f
}
