//go:build cgo && !nometal && (darwin || metalsimt) && (race || asan)

package metal

// raceDetector is on, or AddressSanitizer: they allocate where the program does not.
const raceDetector = true
