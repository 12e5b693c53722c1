//go:build race

package backendtest

// raceDetector is on: it allocates where the program does not.
const raceDetector = true
