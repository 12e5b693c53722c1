// Package admission shows a server that lets a request in only when there is room
// for all that it may become, so that no sequence meets a full pool half-way.
package admission
