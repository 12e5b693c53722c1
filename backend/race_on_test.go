//go:build race

package backend_test

const raceDetector = true
