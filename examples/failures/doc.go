// Package failures shows how a runner is tested on a device whose calls fail one after
// another, on one that is lost, and on one whose streams run late. The tests need no GPU.
package failures
