/** Clients described by files. */
package cellar.client.config;
