//go:build !quick

// Programs that several libraries share.

package main

import (
	"net/http"
	"net/http/httptest"

	"github.com/gorilla/sessions"
)

// visits sends requests as one browser, and shows what came back.
func visits(handler http.Handler, paths ...string) {
	cookie := ""
	for _, path := range paths {
		request := httptest.NewRequest("GET", path, nil)
		request.Header.Set("Cookie", cookie)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if given := answer.Result().Cookies(); len(given) > 0 {
			cookie = given[0].Name + "=" + given[0].Value
			if given[0].MaxAge < 0 {
				cookie = ""
			}
		}
		show(path, answer.Code, answer.Body.String())
	}
}

// gorilla visits an application with a store of Gorilla's sessions.
func gorilla(store sessions.Store) {
	pages := http.NewServeMux()
	pages.HandleFunc("/visit", func(w http.ResponseWriter, r *http.Request) {
		session := got(store.Get(r, "session"))
		count, _ := session.Values["visits"].(int)
		session.Values["visits"] = count + 1
		must(session.Save(r, w))
		_, _ = w.Write([]byte{byte('1' + count)})
	})
	pages.HandleFunc("/leave", func(w http.ResponseWriter, r *http.Request) {
		session := got(store.Get(r, "session"))
		session.Options.MaxAge = -1
		must(session.Save(r, w))
	})
	visits(pages, "/visit", "/visit", "/leave", "/visit")
}
