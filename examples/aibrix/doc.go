// Package aibrix feeds the prefix index of AIBrix's gateway from package kvevents, without cgo and libzmq, and with the events of vLLM from 0.24 on, which are
// maps: AIBrix's own decoder reads arrays only (vllm-project/aibrix#2285). Its types are those of aibrix/pkg/kvevent by structure, so that this package
// needs no import of it: copy the file, and put the import in the place of the types.
package aibrix
