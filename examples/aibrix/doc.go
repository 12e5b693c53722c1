// Package aibrix feeds the prefix index of AIBrix's gateway from package kvevents, without cgo and libzmq, and with the events of vLLM from 0.24 on, which are
// maps: AIBrix's own decoder reads arrays only, until its versions after August 2026. The types have the structure of those in aibrix/pkg/kvevent, so this
// package does not import it: copy the file, and replace the types by the import.
package aibrix
