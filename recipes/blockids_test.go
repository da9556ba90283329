package recipes_test

import "testing"

func TestBlockIDsFaultAtEveryStep(t *testing.T) {
	strikeGenerators(t, "block-ids", map[string]func(w *world, ns *numbers, a, b counter){
		"path missing": nil,
		"used up": func(w *world, ns *numbers, a, b counter) {
			warmUp(w, ns, a, b)
			for range 49 {
				if _, err := ns.from(w.ctx, a); err != nil {
					w.Fatal(err)
				}
			}
			w.settle() // the next block is there
			for range 24 {
				if _, err := ns.from(w.ctx, a); err != nil {
					w.Fatal(err)
				}
			}
		},
	})
}
