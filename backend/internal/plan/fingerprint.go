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

// AddWords is the fingerprint of words after the numbers of f.
func (f Fingerprint) AddWords(words []uint32) Fingerprint {
	for _, word := range words {
		f = (f ^ Fingerprint(word)) * 1099511628211
	}
	return f
}
