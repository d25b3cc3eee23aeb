package cellar.client.config;

final class CacheConfiguration {}
