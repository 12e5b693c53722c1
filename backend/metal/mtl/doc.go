// Package mtl calls Apple's Metal framework through a small Objective-C shim: numbers
// and flat structs cross the border, and a launch is one call that allocates nothing on
// the Go heap.
//
// The shim keeps no state but what its objects hold, retains and releases by hand, and has
// an autorelease pool in every function and handler, because a goroutine's thread has none.
// It uses only what kernels/simt/metal/include declares, so that a stand-in for the framework
// can run it on Linux (tag metalsimt, CC=clang-19). There is nothing here for any other system.
//
// Objects are counted by Metal: what a New function returns is the caller's to release, and
// a committed command buffer keeps the buffers and pipelines that it uses until it is over.
// Names are Apple's, so that its documentation explains them:
// https://developer.apple.com/documentation/metal
package mtl
