/* The C interface: bytes, loaders, null pointers, lengths, closing twice. */

#include <cellar/near.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                         \
    do {                                                                    \
        if (!(what)) {                                                      \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);      \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static cellar_key key_of(const char* text) {
    cellar_key key = {(const uint8_t*)text, strlen(text)};
    return key;
}

static int is_text(const cellar_held* held, const char* text) {
    const cellar_bytes* bytes = held->value;
    return bytes->length == strlen(text) && memcmp(bytes->data, text, bytes->length) == 0;
}

static cellar_status load(void* context, cellar_loaded* made, cellar_error* error) {
    return cellar_local_draft_bytes(context, (const uint8_t*)"made", 4, &made->draft, error);
}

static cellar_status fail(void* context, cellar_loaded* made, cellar_error* error) {
    (void)context, (void)made;
    error->status = CELLAR_LOADER;
    strcpy(error->text, "not today");
    return CELLAR_LOADER;
}

static cellar_status none(void* context, cellar_loaded* made, cellar_error* error) {
    (void)context, (void)made, (void)error;
    return CELLAR_NONE;
}

/* Reports success without a value. */
static cellar_status lie(void* context, cellar_loaded* made, cellar_error* error) {
    (void)context, (void)made, (void)error;
    return CELLAR_OK;
}

static void bytes_are_stored_and_held(cellar_local* local) {
    cellar_error error;
    cellar_held held;
    const uint8_t* value = (const uint8_t*)"value";
    CHECK(cellar_local_insert_bytes(local, key_of("k"), value, 5, CELLAR_UNSET, &error) == CELLAR_OK);
    CHECK(cellar_local_get(local, key_of("k"), &held) == CELLAR_OK && is_text(&held, "value"));
    cellar_held again = cellar_retain(&held);
    cellar_release(&held);
    CHECK(held.value == NULL && is_text(&again, "value"));
    cellar_release(&held);
    cellar_release(&again);
    cellar_release(NULL);
    CHECK(cellar_retain(&again).value == NULL && cellar_retain(NULL).value == NULL);
    CHECK(cellar_local_insert_bytes(local, key_of("e"), NULL, 0, CELLAR_UNSET, NULL) == CELLAR_OK);
    CHECK(cellar_local_get(local, key_of("e"), &held) == CELLAR_OK && is_text(&held, ""));
    cellar_release(&held);
    CHECK(cellar_local_remove(local, key_of("k"), NULL) == CELLAR_OK);
    CHECK(cellar_local_remove(local, key_of("k"), NULL) == CELLAR_NONE);
    CHECK(cellar_local_get(local, key_of("k"), &held) == CELLAR_NONE && held.value == NULL);
}

static void loaders_answer_by_status(cellar_local* local) {
    cellar_error error;
    cellar_held held;
    const uint64_t wait = CELLAR_UNSET;
    CHECK(cellar_local_get_or_load(local, key_of("l"), load, local, wait, &held, &error) == CELLAR_OK);
    CHECK(is_text(&held, "made"));
    cellar_release(&held);
    CHECK(cellar_local_get_or_load(local, key_of("f"), fail, NULL, wait, &held, &error) ==
          CELLAR_LOADER);
    CHECK(error.status == CELLAR_LOADER && strcmp(error.text, "not today") == 0);
    CHECK(cellar_local_get_or_load(local, key_of("f"), fail, NULL, wait, &held, NULL) ==
          CELLAR_LOADER);
    CHECK(cellar_local_get_or_load(local, key_of("n"), none, NULL, wait, &held, &error) ==
          CELLAR_NONE);
    CHECK(cellar_local_get_or_load(local, key_of("n"), lie, NULL, wait, &held, &error) ==
          CELLAR_BAD_ARGUMENT);
    CHECK(cellar_local_get_or_load(local, key_of("n"), NULL, NULL, wait, &held, &error) ==
          CELLAR_BAD_ARGUMENT);
    CHECK(held.value == NULL);
}

static void null_and_huge_are_refused(cellar_local* local) {
    cellar_error error;
    cellar_held held;
    cellar_local* none_open = NULL;
    cellar_near* no_near = NULL;
    cellar_draft draft = {NULL, NULL};
    cellar_local_figures figures;
    cellar_reader reader;
    const cellar_key key = key_of("k");
    const cellar_key nowhere = {NULL, 5};
    const cellar_key endless = {(const uint8_t*)"k", UINT64_MAX};
    const cellar_status bad = CELLAR_BAD_ARGUMENT;
    CHECK(cellar_local_open(NULL, &none_open, &error) == bad && none_open == NULL);
    cellar_local_options options = cellar_local_defaults();
    CHECK(cellar_local_open(&options, NULL, &error) == bad);
    /* After an error `held` is empty, whatever it contained before. */
    memset(&held, 0xff, sizeof held);
    CHECK(cellar_local_get(NULL, key, &held) == bad && held.value == NULL);
    memset(&held, 0xff, sizeof held);
    CHECK(cellar_local_get(local, nowhere, &held) == bad && held.value == NULL);
    memset(&held, 0xff, sizeof held);
    CHECK(cellar_local_get(local, endless, &held) == bad && held.holder == NULL);
    CHECK(cellar_local_get(local, key, NULL) == bad);
    CHECK(cellar_local_insert(local, key, NULL, 0, 0, &error) == bad);
    CHECK(cellar_local_insert(local, key, &draft, 0, 0, &error) == bad);
    CHECK(cellar_local_insert_bytes(local, key, NULL, 5, 0, &error) == bad);
    CHECK(cellar_local_insert_bytes(local, key, (const uint8_t*)"v", SIZE_MAX, 0, &error) == bad);
    CHECK(cellar_local_insert_bytes(local, endless, (const uint8_t*)"v", 1, 0, &error) == bad);
    CHECK(cellar_local_insert_bytes(NULL, key, (const uint8_t*)"v", 1, 0, &error) == bad);
    CHECK(strcmp(error.text, "a null pointer") == 0);
    CHECK(cellar_local_draft(NULL, &draft, &error) == bad);
    CHECK(cellar_local_draft(local, NULL, &error) == bad);
    CHECK(cellar_local_remove(NULL, key, NULL) == bad && cellar_local_clear(NULL, NULL) == bad);
    CHECK(cellar_local_reclaim(NULL, NULL) == bad);
    CHECK(cellar_local_stats(NULL, &figures, NULL) == bad);
    CHECK(cellar_local_stats(local, NULL, NULL) == bad);
    CHECK(cellar_local_reader(NULL, &reader, NULL) == bad);
    CHECK(cellar_near_reader(NULL, &reader, NULL) == bad);
    CHECK(cellar_draft_free(NULL, NULL) == bad && cellar_local_close(NULL, NULL) == bad);
    CHECK(cellar_sink_write(NULL, NULL, 0) == bad);
    cellar_near_options near = cellar_near_defaults();
    CHECK(cellar_near_open(NULL, &no_near, &error) == bad);
    near.address.length = 5;
    CHECK(cellar_near_open(&near, &no_near, &error) == bad && no_near == NULL);
    CHECK(cellar_near_get(NULL, key, &held, &error) == bad);
    CHECK(cellar_near_peek(NULL, key, &held) == bad);
    CHECK(cellar_near_set(NULL, key, &draft, 0, &error) == bad);
    CHECK(cellar_near_remove(NULL, key, &error) == bad);
    CHECK(cellar_near_forget(NULL, key, &error) == bad);
    CHECK(cellar_near_close(&no_near, &error) == CELLAR_OK);
}

static void drafts_are_taken_once(cellar_local* local) {
    cellar_error error;
    cellar_draft draft;
    CHECK(cellar_local_draft_bytes(local, (const uint8_t*)"v", 1, &draft, &error) == CELLAR_OK);
    const cellar_draft kept = draft;
    CHECK(cellar_local_insert(local, key_of("d"), &draft, CELLAR_UNSET, 0, &error) == CELLAR_OK);
    CHECK(draft.slot == NULL);
    CHECK(cellar_local_insert(local, key_of("d"), &draft, CELLAR_UNSET, 0, &error) ==
          CELLAR_BAD_ARGUMENT);
    /* A copy of the draft is detected too, as long as the value is stored. */
    cellar_draft copy = kept;
    CHECK(cellar_local_insert(local, key_of("d"), &copy, CELLAR_UNSET, 0, &error) ==
          CELLAR_BAD_ARGUMENT);
    CHECK(cellar_local_draft(local, &draft, &error) == CELLAR_OK && draft.slot != NULL);
    CHECK(cellar_draft_free(&draft, &error) == CELLAR_OK && draft.slot == NULL);
    CHECK(cellar_draft_free(&draft, &error) == CELLAR_OK);
    /* A draft of another store's type. */
    cellar_local* other = NULL;
    cellar_local_options options = cellar_local_defaults();
    options.values.size = 100;
    options.values.alignment = 8;
    options.keys = CELLAR_KEYS_NUMBERS;
    CHECK(cellar_local_open(&options, &other, &error) == CELLAR_OK);
    CHECK(cellar_local_draft(other, &draft, &error) == CELLAR_OK);
    CHECK(cellar_local_insert(local, key_of("d"), &draft, CELLAR_UNSET, 0, &error) ==
          CELLAR_BAD_ARGUMENT);
    CHECK(cellar_local_insert_bytes(other, (cellar_key){NULL, 7}, NULL, 0, 0, &error) ==
          CELLAR_BAD_ARGUMENT);
    CHECK(cellar_local_insert(other, key_of("d"), &draft, CELLAR_UNSET, 0, &error) ==
          CELLAR_BAD_ARGUMENT);
    CHECK(cellar_local_insert(other, (cellar_key){NULL, 7}, &draft, CELLAR_UNSET, 0, &error) ==
          CELLAR_OK);
    CHECK(cellar_local_close(&other, &error) == CELLAR_OK && other == NULL);
    CHECK(cellar_local_close(&other, &error) == CELLAR_OK);
    options.values.size = CELLAR_VALUE_BYTES_MAX + 1;
    CHECK(cellar_local_open(&options, &other, &error) == CELLAR_BAD_ARGUMENT);
    options.values.size = 8;
    options.values.alignment = 32;
    CHECK(cellar_local_open(&options, &other, &error) == CELLAR_BAD_ARGUMENT);
}

int main(void) {
    cellar_local* local = NULL;
    cellar_local_options options = cellar_local_defaults();
    CHECK(cellar_local_open(&options, &local, NULL) == CELLAR_OK);
    CHECK(strlen(cellar_version()) >= 5);
    bytes_are_stored_and_held(local);
    loaders_answer_by_status(local);
    null_and_huge_are_refused(local);
    drafts_are_taken_once(local);
    CHECK(cellar_local_clear(local, NULL) == CELLAR_OK);
    CHECK(cellar_local_close(&local, NULL) == CELLAR_OK && local == NULL);
    puts("ok plain");
    return 0;
}
