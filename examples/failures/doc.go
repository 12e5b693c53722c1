// Package failures shows how a runner is tested on a device that fails at every place
// in turn, that is lost, and whose streams run late. The tests need no GPU.
package failures
