//go:build race

package plan

// raceDetector is on, and takes from pools what was put there.
const raceDetector = true
