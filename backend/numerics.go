package backend

// Numerics is the version of the bits that are stored of given keys and values: of the
// codecs of the storage types, of RoPE and its tables, and of the Hadamard transform. All
// devices store the same. It is raised whenever a change alters a stored bit, and never for
// another reason: it is in the keys by which other processes, and later versions of this
// library, find content, which then no longer find the old. A test of package backend/cpu
// holds the bits, and says when that is.
const Numerics = 1
