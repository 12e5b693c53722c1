//go:build race || asan

package backendtest

// raceDetector is on, or AddressSanitizer: they allocate where the program does not, and
// take their time.
const raceDetector = true
