//go:build race

package device

// raceDetector is on, and allocates where the program does not.
const raceDetector = true
