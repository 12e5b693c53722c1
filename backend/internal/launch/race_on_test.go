//go:build race

package launch

// raceDetector is on, and allocates where the program does not.
const raceDetector = true
