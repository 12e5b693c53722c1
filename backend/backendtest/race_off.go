//go:build !race && !asan

package backendtest

const raceDetector = false
