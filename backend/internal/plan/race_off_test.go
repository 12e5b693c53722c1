//go:build !race

package plan

// raceDetector is off.
const raceDetector = false
