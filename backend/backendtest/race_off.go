//go:build !race

package backendtest

const raceDetector = false
