//go:build linux && cgo && !nocuda

package driver

// #include "driver.h"
// #cgo noescape fkv_stream_create
// #cgo nocallback fkv_stream_create
// #cgo nocallback fkv_stream_destroy
// #cgo nocallback fkv_stream_sync
// #cgo nocallback fkv_stream_await
// #cgo nocallback fkv_stream_wait
// #cgo noescape fkv_stream_context
// #cgo nocallback fkv_stream_context
// #cgo noescape fkv_event_create
// #cgo nocallback fkv_event_create
// #cgo nocallback fkv_event_destroy
// #cgo nocallback fkv_event_record
// #cgo noescape fkv_event_query
// #cgo nocallback fkv_event_query
// #cgo nocallback fkv_event_sync
// #cgo noescape fkv_event_elapsed
// #cgo nocallback fkv_event_elapsed
import "C"

import "time"

// Stream is a queue of a device, a CUstream; 0 is the legacy default stream.
type Stream uintptr

// NewStream makes a stream that does not wait for the legacy default stream.
func (c *Context) NewStream() (Stream, error) {
	var s C.uintptr_t
	err := c.check(C.fkv_stream_create(c.c, &s))
	return Stream(s), err
}

// DestroyStream ends a stream of NewStream; its work goes on.
func (c *Context) DestroyStream(s Stream) error {
	return c.check(C.fkv_stream_destroy(c.c, C.uintptr_t(s)))
}

// Sync waits for the stream's work. The driver spins, which burns a thread.
func (c *Context) Sync(s Stream) error { return c.check(C.fkv_stream_sync(c.c, C.uintptr_t(s))) }

// Await is Sync without spinning: it records e, which is for waits on this stream alone, and waits for
// it. The flag of contexts that makes every wait so, CU_CTX_SCHED_BLOCKING_SYNC, is not ours to set: the
// primary context belongs to all of the process, and a runner that has made it may count on spinning.
func (c *Context) Await(s Stream, e Event) error {
	return c.check(C.fkv_stream_await(c.c, C.uintptr_t(s), C.uintptr_t(e)))
}

// Wait makes the stream wait for the last record of an event.
func (c *Context) Wait(s Stream, e Event) error {
	return c.check(C.fkv_stream_wait(c.c, C.uintptr_t(s), C.uintptr_t(e)))
}

// Owns reports whether the stream is one of this context.
func (c *Context) Owns(s Stream) (bool, error) {
	var context C.uintptr_t
	err := c.check(C.fkv_stream_context(c.c, C.uintptr_t(s), &context))
	return context == c.c.context, err
}

// Event is a mark in a stream, a CUevent. One that was never recorded is done.
type Event uintptr

// EventUse is what an event is for.
type EventUse int32

// The uses. Each costs the device more than the one before.
const (
	Ordering EventUse = C.FKV_EVENT_ORDERING // streams wait for it
	Waiting  EventUse = C.FKV_EVENT_WAITING  // the host does, too, and does not spin in SyncEvent: the device interrupts it
	Timing   EventUse = C.FKV_EVENT_TIMING   // Elapsed, too
)

// NewEvent makes an event.
func (c *Context) NewEvent(use EventUse) (Event, error) {
	var e C.uintptr_t
	err := c.check(C.fkv_event_create(c.c, C.int32_t(use), &e))
	return Event(e), err
}

// DestroyEvent ends an event; nobody waits for it any more.
func (c *Context) DestroyEvent(e Event) error {
	return c.check(C.fkv_event_destroy(c.c, C.uintptr_t(e)))
}

// Record sets the event to the stream's present end.
func (c *Context) Record(e Event, s Stream) error {
	return c.check(C.fkv_event_record(c.c, C.uintptr_t(e), C.uintptr_t(s)))
}

// Done reports whether the event's last record was reached.
func (c *Context) Done(e Event) (bool, error) {
	var done C.int32_t
	err := c.check(C.fkv_event_query(c.c, C.uintptr_t(e), &done))
	return done != 0, err
}

// SyncEvent waits until the event's last record is reached.
func (c *Context) SyncEvent(e Event) error { return c.check(C.fkv_event_sync(c.c, C.uintptr_t(e))) }

// Elapsed is the device's time between two events that are done.
func (c *Context) Elapsed(start, end Event) (time.Duration, error) {
	var milliseconds C.float
	err := c.check(C.fkv_event_elapsed(c.c, C.uintptr_t(start), C.uintptr_t(end), &milliseconds))
	return time.Duration(float64(milliseconds) * float64(time.Millisecond)), err
}
