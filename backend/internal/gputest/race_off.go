//go:build !race && !asan

package gputest

const raceDetector = false
