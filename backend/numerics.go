package backend

// NumericsVersion is the version of the stored bits: of the codecs of the storage types, of RoPE
// and its tables, and of the Hadamard transform. All devices store the same bits for the same keys
// and values. The number is raised when a change alters a stored bit, and for no other reason. It
// is part of the keys of blocks, so later versions of this library, and other processes, do not
// find content that was stored with other bits. A golden test in package backend/cpu detects such a
// change.
const NumericsVersion = 2
