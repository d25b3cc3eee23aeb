// hiredis: commands, pipelines, transactions, subscriptions.

#include <hiredis/hiredis.h>

#include "show.h"

// Shows a reply and what it holds.
static void show(redisReply *reply) {
    must(reply != NULL, "the connection is lost");
    switch (reply->type) {
    case REDIS_REPLY_INTEGER:
        printf(" %lld", reply->integer);
        break;
    case REDIS_REPLY_NIL:
        printf(" nil");
        break;
    case REDIS_REPLY_ARRAY:
        for (size_t i = 0; i < reply->elements; i++) show(reply->element[i]);
        break;
    default:
        printf(" %s", reply->str);
    }
}

static void sent(redisContext *context, const char *command) {
    redisReply *reply = redisCommand(context, command);
    printf("%s:", command);
    show(reply);
    printf("\n");
    freeReplyObject(reply);
}

int main(void) {
    redisContext *context = redisConnect(server_host(), server_port());
    must(context != NULL && context->err == 0, "no connection");
    const char *commands[] = {"SET a 1 EX 60", "INCRBY a 4", "MGET a none", "HSET h f v",
                              "HGETALL h", "ZADD z 1 a", "ZRANGE z 0 -1 WITHSCORES", "MULTI",
                              "INCR a", "EXEC", "DEL a none"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) sent(context, commands[i]);
    for (int i = 0; i < 100; i++) redisAppendCommand(context, "INCR n");
    redisReply *reply = NULL;
    for (int i = 0; i < 100; i++) {
        freeReplyObject(reply);
        must(redisGetReply(context, (void **)&reply) == REDIS_OK, "no reply");
    }
    printf("pipeline: %lld\n", reply->integer);
    freeReplyObject(reply);
    redisContext *other = redisConnect(server_host(), server_port());
    sent(other, "SUBSCRIBE news");
    sent(context, "PUBLISH news hello");
    must(redisGetReply(other, (void **)&reply) == REDIS_OK, "no message");
    printf("message:");
    show(reply);
    printf("\n");
    freeReplyObject(reply);
    redisFree(other);
    redisFree(context);
    return 0;
}
