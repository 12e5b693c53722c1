package serving_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/ferrumkv/ferrumkv"
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/schedule"
)

type model struct{ step *ferrumkv.Step }

func (m model) Forward(*schedule.Step[backend.AnyBuffer]) error {
	n := m.step.Tokens()                                       // of all requests of the step
	q, out := make([]float32, n*4*64), make([]float32, n*4*64) // [tokens, query heads, head dim]
	k, v := make([]float32, n*2*64), make([]float32, n*2*64)   // [tokens, KV heads, head dim]
	for layer := range 2 {
		// The model fills q, k and v here, and goes on with out afterwards.
		if err := m.step.Attend(layer, ferrumkv.Rows{Q: q, K: k, V: v, Out: out}); err != nil {
			return err
		}
	}
	return nil
}

func (m model) Next(*schedule.Step[backend.AnyBuffer], int) (token uint32, last bool, err error) {
	return 7, false, nil // what the model's last row of this part says, and whether it ends the text
}

func Example() {
	kv, err := ferrumkv.Open("cpu", kvcache.Config{ // "": the best device there is
		Model:  kvcache.Model{Layers: 2, QHeads: 4, KVHeads: 2, HeadDim: 64},
		Memory: kvcache.Memory{Layout: kvcache.Paged},
	})
	check(err)
	defer kv.Close()
	step, err := kv.NewStep()
	check(err)
	s, err := schedule.New(model{step}, kv.Pool, step.Batch, step.Stream, schedule.Options{})
	check(err)
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() {
			answer, err := s.Submit(context.Background(), schedule.Request{Prompt: make([]uint32, 49), MaxTokens: 5})
			check(err)
			for token, err := range answer.Tokens() {
				check(err)
				_ = token // goes to the caller, who may leave
			}
		})
	}
	go func() { callers.Wait(); s.Drain() }() // in a server, what happens on SIGTERM
	check(s.Run(context.Background()))
	stats := s.Stats()
	fmt.Println("computed", stats.Computed, "of", stats.Prompt, "tokens of prompts, and", stats.Generated, "of answers")
	// Output:
	// computed 51 of 147 tokens of prompts, and 15 of answers
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
